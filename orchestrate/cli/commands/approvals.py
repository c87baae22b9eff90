"""`orchestrate approvals`, `approve` and `deny`: the gates that wait, and decisions about them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.runs_folder import runs_of
from orchestrate.cli.options import (
    json_option,
    run_argument,
    state_dir_option,
    working_dir_option,
)
from orchestrate.errors import OrchestrateError
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.runs import Run, list_runs
from orchestrate.state.times import local_time, seconds_of
from orchestrate.view.advice import as_started_flag
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import run_view
from orchestrate.view.source_files import shown_definition

if TYPE_CHECKING:
    from orchestrate.app.decide import Decided, Decision
    from orchestrate.state.result import Approval
    from orchestrate.view.run_view import RunView


@record
class Waiting:
    """A gate that waits, with the run that it belongs to."""

    run_id: str
    definition: str
    is_live: bool
    gate: Approval


@click.command(short_help="List the gates that wait for a decision.")
@state_dir_option
@working_dir_option
@json_option
def approvals(state_dir: str | None, working_dir: str | None, as_json: bool) -> int:
    """List the gates that wait for a decision, over all runs of the workspace.

    A gate whose time is up is decided by its default, and no longer listed.
    """

    place = Place(working_dir, state_dir)
    waiting = []
    for view in _parked(place):
        for gate in view.state.pending:
            definition = view.state.definition
            waiting.append(Waiting(view.run.id, definition, view.is_live, gate))
    if as_json:
        answer_json({"approvals": [_waiting_json(one) for one in waiting]})
    elif waiting:
        answer("\n".join(_waiting_text(one, place) for one in waiting))
    else:
        answer("Nothing waits for an approval.\n")
    return 0


def _parked(place: Place) -> list[RunView]:
    """The runs that may wait at a gate; those that cannot be read are told, and left out."""
    from orchestrate.app.decide import settled_view

    found = []
    for run in list_runs(runs_of(place, tell_fault=note_once)):
        summary = summary_of(run)
        may_wait = summary.status in ("running", "interrupted", "paused")
        if not may_wait or summary.fields().get("dialect") != "recipe":
            continue
        try:
            view = settled_view(run)
        except OrchestrateError as error:
            note(f"orchestrate: run {run.id} is left out: {visible(error.message)}\n")
            continue
        if view.status in ("running", "interrupted", "paused"):
            found.append(view)
    return found


def _waiting_json(one: Waiting) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "workflow_file": one.definition,
        "at_terminal": one.is_live,
        **one.gate.question,
    }


def _waiting_text(one: Waiting, place: Place) -> str:
    gate = one.gate
    lines = [f"{one.run_id}  {shown_definition(one.definition)}  stage '{visible(gate.stage)}'"]
    lines += [f"  | {visible(line)}" for line in gate.prompt.splitlines()]
    lines.append(f"  since    {local_time(gate.requested_at)}{_until(gate)}")
    if one.is_live:
        lines.append("  it also asks at a terminal")
    for verb in ("approve", "deny"):
        command = place.command(verb, one.run_id, gate.stage)
        lines.append(f"  {verb + ':':8} {visible(command)}")
    return "\n".join(lines) + "\n"


def _until(gate: Approval) -> str:
    from orchestrate.show.event_lines import duration

    if gate.expires_at is None:
        return ""
    left = max(0.0, seconds_of(gate.expires_at) - time.time())
    until = local_time(gate.expires_at)
    return f", until {until} (in {duration(left * 1000)}; then: {gate.default})"


@click.command(short_help="Approve a stage, so that its run may go on.")
@run_argument
@click.argument("stage", metavar="[STAGE]", required=False)
@click.option("-m", "--message", default="", metavar="TEXT",
              help="Later steps have it as {{approval.message}}.")  # fmt: skip
@click.option("--resume", "goes_on", is_flag=True, help="Go on with the run at once.")
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
    """Approve the stage that a run waits at: RUN is an id, the beginning of one, or `latest`.

    Without RUN it is the latest run or, if that waits for nothing, the only one that waits. STAGE
    is needed only where several wait. The decision is recorded once; `orchestrate resume` goes on
    with the run.
    """
    from orchestrate.cli.default_run import is_unnamed, run_that_waits

    place = Place(working_dir, state_dir)
    if is_unnamed(ctx):
        run = run_that_waits(_parked(place), place)
    found, decided = _decide(run, stage, "approved", message, place)
    if goes_on and decided.status == "paused":
        from orchestrate.cli.commands.resume import resume

        note(_told(found, decided, place, goes_on=True))
        code: int = ctx.invoke(
            resume, run=found.id, state_dir=state_dir, working_dir=working_dir, as_json=as_json
        )
        return code
    _tell(found, decided, place, as_json)
    return 0


@click.command(short_help="Deny a stage, which ends its run.")
@click.argument("run", metavar="RUN")
@click.argument("stage", metavar="[STAGE]", required=False)
@click.option("-m", "--message", default="", metavar="TEXT", help="Why; kept in the run's state.")
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
    """Deny the stage that a run waits at. A denial is final: the run has failed."""

    place = Place(working_dir, state_dir)
    found, decided = _decide(run, stage, "denied", message, place)
    _tell(found, decided, place, as_json)
    return 0


def _decide(
    name: str, stage: str | None, decision: Decision, message: str, place: Place
) -> tuple[Run, Decided]:
    from orchestrate.app.claim import AtWorkError
    from orchestrate.app.decide import decide, decide_live
    from orchestrate.app.open_run import find_stored

    _, run, workspace = find_stored(name, place.working_dir, place.state_dir, tell_fault=note_once)
    while True:
        try:
            return run, decide(run, workspace, stage, decision, message, note)
        except AtWorkError:
            # It asks at a terminal, or is about to come to it.
            decided = decide_live(run, workspace, stage, decision, message)
        if decided is not None:
            return run, decided


def _tell(run: Run, decided: Decided, place: Place, as_json: bool) -> None:
    if not as_json:
        answer(_told(run, decided, place))
        return
    ending = decided.ending
    goes_on = decided.status == "paused" and not decided.asks_more
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
    text = f"stage '{visible(decided.stage)}' of run {run.id} is {decided.decision}\n"
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
    return text + f"go on with it: {_resume(run, place)}\n"


def _resume(run: Run, place: Place) -> str:
    return place.command("resume", run.id, *as_started_flag(run, run_view(run).state))
