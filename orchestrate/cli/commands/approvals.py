"""`orchestrate approvals`, `approve` and `deny`: the gates that wait, and decisions about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrate.app.deciding.decide import Decision, decide
from orchestrate.app.deciding.inbox import waiting_gates
from orchestrate.app.deciding.settle import parked_runs
from orchestrate.app.reading.default_run import run_that_waits
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.group import invoke
from orchestrate.cli.later import answer_later
from orchestrate.cli.options import (
    diff_option,
    is_unnamed,
    json_option,
    named_run_argument,
    place_options,
    run_argument,
)
from orchestrate.show.decision_text import decision_json, decision_text
from orchestrate.show.gates_text import waiting_json, waiting_text
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.runs import Run, list_runs, may_name_run
from orchestrate.view.outcomes import Decided
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.view.run_view import RunView


_parked_elsewhere = answer_later("fleet.away:parked_elsewhere")
_parked_in_fleet = answer_later("fleet.away:parked_in_fleet")


@click.command(short_help="List the gates that wait for a decision.")
@diff_option
@click.option("--fleet", "of_fleet", is_flag=True,
              help="Those of all runs on the server of fleet.yaml instead.")  # fmt: skip
@place_options
@json_option
def approvals(
    with_hunks: bool,
    of_fleet: bool,
    place: Place,
    as_json: bool,
) -> int:
    """List the gates that wait for a decision, in all runs of the workspace.

    Each with the files that have changed since the gate before it, as git tells. A gate whose time
    is up is decided by its default and no longer listed.
    """
    root = workspace_of(place.working_dir).root
    if of_fleet:
        with _parked_in_fleet() as views:
            waiting = waiting_gates(views, root, with_hunks=False)
    else:
        waiting = waiting_gates(_parked_anywhere(place), root, with_hunks=with_hunks)
    if as_json:
        answer_json({"approvals": [waiting_json(one) for one in waiting]})
    elif waiting:
        answer("\n".join(waiting_text(one, place) for one in waiting))
    else:
        answer("Nothing waits for an approval.\n")
    return 0


@click.command(short_help="Approve a stage, so that its run can continue.")
@run_argument
@click.argument("stage", metavar="[STAGE]", required=False)
@click.option("-m", "--message", default="", metavar="TEXT",
              help="A message; later steps read it as {{approval.message}}.")  # fmt: skip
@click.option("--resume", "goes_on", is_flag=True, help="Resume the run at once.")
@place_options
@json_option
@click.pass_context
def approve(
    ctx: click.Context,
    run: str,
    stage: str | None,
    message: str,
    goes_on: bool,
    place: Place,
    as_json: bool,
) -> int:
    """Approve the stage at which a run waits; `orchestrate resume` then continues the run.

    RUN is an id, the beginning of one, or `latest`. Without RUN it is the latest run or, if that
    one does not wait, the only one that does; an argument that names no run is a STAGE. STAGE is
    needed only if several wait; gates of one name in several items or calls are told apart by the
    path that `approvals` shows. A stage is decided once; a second decision is refused.
    """
    run, stage = _meant(ctx, run, stage, place)
    found, decided = _decide(run, stage, "approved", message, place)
    if goes_on and decided.status == "paused":
        note(decision_text(found, decided, place, goes_on=True))
        return invoke(ctx, "resume", run=found.id, **place.options, as_json=as_json)
    _tell(found, decided, place, as_json)
    return 0


@click.command(short_help="Deny a stage, which ends its run.")
@named_run_argument
@click.argument("stage", metavar="[STAGE]", required=False)
@click.option(
    "-m", "--message", default="", metavar="TEXT", help="The reason; kept in the run's state."
)
@place_options
@json_option
def deny(
    run: str,
    stage: str | None,
    message: str,
    place: Place,
    as_json: bool,
) -> int:
    """Deny the stage at which a run waits. A denial is final: the run has failed.

    RUN and STAGE are as for `approve`, but RUN has to be named.
    """
    found, decided = _decide(run, stage, "denied", message, place)
    _tell(found, decided, place, as_json)
    return 0


def _meant(ctx: click.Context, run: str, stage: str | None, place: Place) -> tuple[str, str | None]:
    """As `logs`: one argument is a run when it names one, else a stage of the run that waits."""
    if is_unnamed(ctx):
        return run_that_waits(_parked(place), place, None, note_once), stage
    if stage is None and not may_name_run(runs_of(place, tell_fault=note_once), run):
        return run_that_waits(_parked(place), place, run, note_once), run
    return run, stage


def _parked_anywhere(place: Place) -> list[RunView]:
    """Runs on other machines, too."""
    known = list_runs(runs_of(place, tell_fault=note_once))
    away = [run for run in known if summary_of(run).status == "unknown"]
    return [*_parked(place), *(_parked_elsewhere(away) if away else ())]


def _parked(place: Place) -> list[RunView]:
    return parked_runs(runs_of(place, tell_fault=note_once), note)


def _decide(
    name: str, stage: str | None, decision: Decision, message: str, place: Place
) -> tuple[Run, Decided]:
    _, run, workspace = find_stored(name, place, tell_fault=note_once)
    return run, decide(run, workspace, stage, decision, message, note)


def _tell(run: Run, decided: Decided, place: Place, as_json: bool) -> None:
    if as_json:
        answer_json(decision_json(run, decided, place))
    else:
        answer(decision_text(run, decided, place))
