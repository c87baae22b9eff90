"""`orchestrate approvals`, `approve` and `deny`: the gates that wait, and decisions about them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from orchestrate.app.decide import Decision, decide
from orchestrate.app.inbox import masked
from orchestrate.app.open_run import find_stored
from orchestrate.app.runs_folder import runs_of
from orchestrate.app.settle import Decided, parked_runs
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.default_run import is_unnamed, run_that_waits
from orchestrate.cli.group import invoke
from orchestrate.cli.options import (
    diff_option,
    json_option,
    named_run_argument,
    run_argument,
    state_dir_option,
    working_dir_option,
)
from orchestrate.errors import StateError
from orchestrate.plan.visible import visible
from orchestrate.show.gates_text import Waiting, waiting_json, waiting_text
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.address import gate_words
from orchestrate.state.gates import gate_names
from orchestrate.state.runs import Run, may_name_run
from orchestrate.view.advice import view_flags
from orchestrate.view.inbox import Evidence, questions_of
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.view.run_view import RunView


@click.command(short_help="List the gates that wait for a decision.")
@diff_option
@state_dir_option
@working_dir_option
@json_option
def approvals(
    with_hunks: bool, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """List the gates that wait for a decision, in all runs of the workspace.

    Each with the files that have changed since the gate before it, as git tells. A gate whose time
    is up is decided by its default and no longer listed.
    """
    place = Place(working_dir, state_dir)
    root = workspace_of(working_dir).root
    waiting = []
    for view in _parked(place):
        pending = view.state.pending
        asked = questions_of(view, root, with_hunks=with_hunks) if pending else []
        shown = {one.visited: masked(one, view.run).evidence for one in asked}
        for gate, name in zip(pending, gate_names(pending), strict=True):
            evidence = shown.get(gate.visited, Evidence())
            definition = view.state.definition
            waiting.append(Waiting(view.run.id, definition, view.is_live, gate, name, evidence))
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
@state_dir_option
@working_dir_option
@json_option
@click.pass_context
def approve(
    ctx: click.Context,
    run: str,
    stage: str | None,
    message: str,
    goes_on: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Approve the stage at which a run waits; `orchestrate resume` then continues the run.

    RUN is an id, the beginning of one, or `latest`. Without RUN it is the latest run or, if that
    one does not wait, the only one that does; an argument that names no run is a STAGE. STAGE is
    needed only if several wait; gates of one name in several items or calls are told apart by the
    path that `approvals` shows. A stage is decided once; a second decision is refused.
    """
    place = Place(working_dir, state_dir)
    run, stage = _meant(ctx, run, stage, place)
    found, decided = _decide(run, stage, "approved", message, place)
    if goes_on and decided.status == "paused":
        note(_told(found, decided, place, goes_on=True))
        folders = {"state_dir": state_dir, "working_dir": working_dir}
        return invoke(ctx, "resume", run=found.id, **folders, as_json=as_json)
    _tell(found, decided, place, as_json)
    return 0


@click.command(short_help="Deny a stage, which ends its run.")
@named_run_argument
@click.argument("stage", metavar="[STAGE]", required=False)
@click.option(
    "-m", "--message", default="", metavar="TEXT", help="The reason; kept in the run's state."
)
@state_dir_option
@working_dir_option
@json_option
def deny(
    run: str,
    stage: str | None,
    message: str,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Deny the stage at which a run waits. A denial is final: the run has failed.

    RUN and STAGE are as for `approve`, but RUN has to be named.
    """
    place = Place(working_dir, state_dir)
    found, decided = _decide(run, stage, "denied", message, place)
    _tell(found, decided, place, as_json)
    return 0


def _meant(ctx: click.Context, run: str, stage: str | None, place: Place) -> tuple[str, str | None]:
    """As `logs`: one argument is a run when it names one, else a stage of the run that waits."""
    if is_unnamed(ctx):
        return run_that_waits(_parked(place), place), stage
    if stage is None and not may_name_run(runs_of(place, tell_fault=note_once), run):
        return run_that_waits(_parked(place), place, run), run
    return run, stage


def _parked(place: Place) -> list[RunView]:
    return parked_runs(runs_of(place, tell_fault=note_once), note)


def _decide(
    name: str, stage: str | None, decision: Decision, message: str, place: Place
) -> tuple[Run, Decided]:
    _, run, workspace = find_stored(name, place.working_dir, place.state_dir, tell_fault=note_once)
    return run, decide(run, workspace, stage, decision, message, note)


def _tell(run: Run, decided: Decided, place: Place, as_json: bool) -> None:
    if not as_json:
        answer(_told(run, decided, place))
        return
    ending = decided.ending
    goes_on = decided.status == "paused" and not decided.asks_more and not _is_elsewheres(run)
    answer_json(
        {
            "run_id": run.id,
            "stage": decided.stage,
            "decision": decided.decision,
            "by": decided.by,
            "message": decided.message,
            "status": decided.status,
            "reason": "" if ending is None else ending.reason,
            "next": _resume(run, place) if goes_on else None,
        }
    )


def _told(run: Run, decided: Decided, place: Place, *, goes_on: bool = False) -> str:
    gate = visible(gate_words(decided.stage, decided.node))
    text = f"{gate} of run {run.id} is {decided.decision}\n"
    if goes_on:
        return text
    ending = decided.ending
    if ending is None:
        return text + "the process that works on it goes on\n"
    if ending.status != "paused":
        word = "completed" if ending.status == "completed" else "ended"
        why = f": {visible(ending.reason)}" if ending.tells else ""
        return text + f"the run has {word}{why}\n"
    if decided.asks_more:
        return text + f"it {visible(ending.reason)}\n"
    if _is_elsewheres(run):
        return text + "the run goes on by itself\n"
    return text + f"go on with it: {_resume(run, place)}\n"


def _is_elsewheres(run: Run) -> bool:
    """Was it sent here from another machine, which lets it go on after a decision?"""
    with suppress(StateError):
        return bool(run_view(run).state.settings.get("seat"))
    return False


def _resume(run: Run, place: Place) -> str:
    try:
        flags = view_flags(run_view(run))
    except StateError:
        flags = ("--repair",)
    return place.command("resume", run.id, *flags)
