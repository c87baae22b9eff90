"""Which run is meant when none is named: the latest, unless only another one waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.state.runs import LATEST, list_runs
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.view.place import Place
    from orchestrate.view.run_view import RunView

_MOST = 5


def run_that_waits(
    parked: list[RunView],
    place: Place,
    stage: str | None,
    tell_fault: Callable[[str], None],
) -> str:
    """The run to decide about: the latest, else the only one that waits at a gate (of a stage)."""
    latest = find_stored(LATEST, place, tell_fault=tell_fault)[1]
    asking = {view.run.id: [gate.stage for gate in view.state.pending] for view in parked}
    waiting = [run for run, stages in asking.items() if stage in stages or (stages and not stage)]
    if latest.id in waiting or not waiting:
        return latest.id
    if len(waiting) == 1:
        return waiting[0]
    more = [] if stage is None else [stage]
    commands = [visible(place.command("approve", run_id, *more)) for run_id in waiting]
    raise UsageError(
        f"the latest run waits for no approval, and {len(waiting)} others do: name one",
        "\n".join(commands),
    )


def paused_lines(place: Place, tell_fault: Callable[[str], None]) -> list[str]:
    """Runs that could be resumed, for a user who named none and got one that is completed."""
    runs = list_runs(runs_of(place, tell_fault=tell_fault))
    paused = [run.id for run in runs if summary_of(run).status in ("paused", "interrupted")]
    commands = [visible(place.command("resume", run_id)) for run_id in paused[:_MOST]]
    more = [f"and {len(paused) - _MOST} more: orchestrate runs"] if len(paused) > _MOST else []
    return [*(f"another one waits: {command}" for command in commands), *more]
