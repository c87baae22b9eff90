"""Which run is meant when none is named: the latest, unless only another one waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrate.app.open_run import find_stored
from orchestrate.app.runs_folder import runs_of
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.show.output import note, note_once
from orchestrate.state.runs import LATEST
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.view.place import Place
    from orchestrate.view.run_view import RunView

_MOST = 5


def is_unnamed(context: click.Context) -> bool:
    """Was RUN left out? `latest` that somebody wrote means the latest whatever it does."""
    return context.get_parameter_source("run") is click.core.ParameterSource.DEFAULT


def run_that_waits(parked: list[RunView], place: Place) -> str:
    """The run to decide about: the latest, else the only one that waits at a gate."""

    latest = find_stored(LATEST, place.working_dir, place.state_dir, tell_fault=note_once)[1]
    waiting = [view.run.id for view in parked if view.state.pending]
    if latest.id in waiting or not waiting:
        return latest.id
    if len(waiting) == 1:
        return waiting[0]
    commands = [visible(place.command("approve", run_id)) for run_id in waiting]
    raise UsageError(
        f"the latest run waits for no approval, and {len(waiting)} others do: say which is meant",
        "\n".join(commands),
    )


def tell_paused(place: Place) -> None:
    """Runs that could be resumed, for who named none and got one that is completed."""
    from orchestrate.state.runs import list_runs

    runs = list_runs(runs_of(place, tell_fault=note_once))
    paused = [run.id for run in runs if summary_of(run).status in ("paused", "interrupted")]
    for run_id in paused[:_MOST]:
        note(f"  another one waits: {visible(place.command('resume', run_id))}\n")
    if len(paused) > _MOST:
        note(f"  and {len(paused) - _MOST} more: orchestrate runs\n")
