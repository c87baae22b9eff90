"""`orchestrate status`: how a run stands, what it is doing or waiting for, and how to go on."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.kept_programs import are_programs_left
from orchestrate.cli.options import json_option, run_argument, state_dir_option, working_dir_option
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json
from orchestrate.state.result import Approval, StepResult
from orchestrate.view.advice import (
    Reached,
    as_started_flag,
    resume_flags,
    values_wanted,
    what_to_look_at,
)
from orchestrate.view.cursors import Cursor, cursors_in
from orchestrate.view.place import Place
from orchestrate.view.run_summary import FINAL, summary_of
from orchestrate.view.run_view import is_at_end, is_denied, pending_gates
from orchestrate.view.waiting import authored_steps, awaited

if TYPE_CHECKING:
    from orchestrate.state.runs import Run
    from orchestrate.view.run_view import RunView

_STEP_FIELDS = ("status", "last_attempt", "exit_code", "duration_ms", "attempts", "outcome",
                "reason", "agent", "model", "model_requested", "permissions", "denials", "recipe",
                "from_run")  # fmt: skip


@click.command(short_help="Show how a run stands.")
@run_argument
@click.option("--watch", "watches", is_flag=True,
              help="Go on showing it until it ends, as `attach` does.")  # fmt: skip
@state_dir_option
@working_dir_option
@json_option
def status(
    run: str, watches: bool, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """Show how a run stands: RUN is its id, the beginning of one, or `latest`.

    It can be asked at any time, also while the run works. An approval whose time is up is decided
    by its default.
    """
    from orchestrate.app.decide import settled_sight
    from orchestrate.app.open_run import find_stored

    if watches and as_json:
        raise UsageError("--watch and --json exclude each other", "`wait --json` waits for the end")
    _, found, workspace = find_stored(run, working_dir, state_dir, is_looking=True)
    place = Place(working_dir, state_dir)
    if watches and summary_of(found).status == "running":
        from orchestrate.cli.commands.attach import watch_run

        return watch_run(found, workspace, place, None)
    sight = settled_sight(found)
    document = view(sight, place, time.time())
    if as_json:
        answer_json(document)
    else:
        from orchestrate.show.status import draw_status

        answer(draw_status(document, sight.ending))
    if watches:
        from orchestrate.cli.commands.wait import code_of

        return code_of(sight)
    return 0


def view(sight: RunView, place: Place, now: float) -> dict[str, Any]:
    """What `status --json` answers; the text is drawn from it."""
    from orchestrate.show.progress import last_outcome

    document = sight.document
    gates = _waiting_gates(sight)
    programs_left = are_programs_left(sight)
    shown = {
        "run_id": document["run_id"],
        "run_root": str(sight.run.root),
        "dialect": document["dialect"],
        "workflow_file": document["workflow_file"],
        "status": sight.status,
        "reason": None if sight.ending is None else sight.ending.reason,
        "started_at": document["started_at"],
        "updated_at": document["updated_at"],
        "completed_at": document.get("completed_at"),
        "elapsed_ms": _elapsed_ms(sight, now),
        "steps": _steps(document),
        "not_reached": _not_reached(sight),
        "current": [_current(at, sight, gates, now) for at in _cursors(sight)],
        **last_outcome(_newest(document)),
        "stage": gates[0].stage if gates else None,
        "approvals": [gate.question for gate in gates],
        "at_terminal": bool(gates) and sight.is_live,
        "programs_left": programs_left,
        "note": sight.note,
        "look": _look(sight, place),
        "next": next_commands(sight, place),
    }
    for name in ("stages", "machine", "costs", "denials"):
        if name in document:
            shown[name] = document[name]
    if "machine" in shown and not shown["machine"]["sessionCreated"]:
        # An id that was chosen for a session which nobody has seen may be nobody's.
        shown["machine"] = {**shown["machine"], "sessionId": None}
    # An agent that still works in its session would lose a turn, or the person would.
    takeovers = [] if programs_left else _takeovers(sight)
    if takeovers:
        shown["takeover"] = takeovers[0]
        shown["takeovers"] = takeovers
    return shown


def _newest(document: dict[str, Any]) -> StepResult | None:
    """The result of the step that a machine entered last."""
    return _results(document).get(document.get("machine", {}).get("currentStep"))


def _results(document: dict[str, Any]) -> dict[str, StepResult]:
    """Those of the steps outside loops."""
    found = document["steps"].items()
    return {name: StepResult.from_json(one) for name, one in found if isinstance(one, dict)}


def _takeovers(sight: RunView) -> list[str]:
    """The commands with which a person goes on in a session of the run by hand.

    A machine has one session. Of other runs it is those of the steps at the cursors, or else that
    of the step that ended last. None while the run works: two in one session would lose a turn.
    """
    document = sight.document
    if sight.is_live:
        return []
    session = document["engine"]["session"]
    found: list[tuple[str, str]] = []
    if session["id"] and session["is_created"]:
        agent = session.get("agent") or document["settings"].get("backend", "claude-code")
        found = [(agent, session["id"])]
    if not found:
        found = [_session_in(at.result) for at in _cursors(sight)]
    if not any(session for _, session in found):
        results = sorted(_results(document).values(), key=lambda result: result.completed_at)
        found = [_session_in(result) for result in results if result.session_id is not None][-1:]
    commands = [_takeover(agent, session, sight) for agent, session in found if session]
    return [command for command in dict.fromkeys(commands) if command]


def _session_in(result: StepResult) -> tuple[str, str]:
    return result.backend, result.session_id or ""


def _takeover(agent: str, session: str, sight: RunView) -> str:
    import shlex

    from orchestrate.agents.registry import is_program, make_agent

    if not agent or not is_program(agent):
        return ""
    workspace = Path(sight.document["engine"]["workspace"])
    command = make_agent(agent).takeover(session, workspace)
    return "" if command is None else shlex.join(command)


def _elapsed_ms(sight: RunView, now: float) -> int:
    """From the start to the end; for a run that was left, to the last sign of life."""
    from orchestrate.state.times import seconds_of

    document = sight.document
    end = now
    if not sight.is_live or document["status"] != "running":
        end = seconds_of(document.get("completed_at") or document["updated_at"])
    if sight.status == "interrupted":
        # Killed: what its programs printed since is later than the last thing that it recorded.
        end = max(end, min(_last_written(sight.run), now))
    return max(0, round((end - seconds_of(document["started_at"])) * 1000))


def _last_written(run: Run) -> float:
    """When a file of the run was changed last; 0 if that cannot be told."""
    import os

    times = [0.0]
    for folder in (run.root / "keeper", run.logs):
        with suppress(OSError), os.scandir(folder) as entries:
            times += [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    return max(times)


def _steps(document: dict[str, Any]) -> dict[str, Any]:
    """The steps of the main block in the order they were first reached."""
    root = document["engine"]["root"]
    reached = {node: number for number, node in enumerate(root.get("visits", {}))}
    loops = {loop["name"]: (node, loop) for node, loop in root.get("loops", {}).items()}
    names = sorted(document["steps"], key=lambda name: reached.get(name, -1))
    shown: dict[str, Any] = {}
    for name in names:
        result = document["steps"][name]
        if isinstance(result, list):
            node, loop = loops[name]
            shown[name] = _loop(node, loop, root, document["for_each"][name])
        else:
            shown[name] = _step(StepResult.from_json(result))
    return shown


def _not_reached(sight: RunView) -> list[str]:
    """The steps outside loops that have not begun; of a machine, some may never do."""

    if sight.status in FINAL:
        return []
    begun = sight.document["steps"]
    return [name for name in authored_steps(sight.run) if name not in begun]


def _step(result: StepResult) -> dict[str, Any]:
    shown = dict(result.only(*_STEP_FIELDS).to_json())
    if result.outcome_description is not None:
        shown["otherDescription"] = result.outcome_description
    if result.error is not None:
        shown["error"] = result.message
    return shown


def _loop(
    node: str, loop: dict[str, Any], root: dict[str, Any], progress: dict[str, Any]
) -> dict[str, Any]:
    here = root.get("here")
    status = "running"
    if loop["closed"]:
        status = "failed" if loop["failed"] else "completed"
    elif here is not None and here[0] == node and here[2] == "failed":
        status = "failed"
    return {
        "status": status,
        "total": progress["total"],
        "completed": len(progress["completed_indices"]),
        "failed": progress["failed_indices"],
    }


def _cursors(sight: RunView) -> list[Cursor]:
    """The steps that the run stands at; those of a run that is over say nothing any more."""

    return [] if sight.status in FINAL else cursors_in(sight.document)


def _current(at: Cursor, sight: RunView, gates: list[Approval], now: float) -> dict[str, Any]:
    from orchestrate.state.times import timestamp

    shown: dict[str, Any] = {"step": at.path, "phase": at.phase, "attempt": at.attempt}
    if at.visit > 1:
        shown["visit"] = at.visit
    if at.since:
        shown["since"] = timestamp(at.since)
        shown["for_ms"] = max(0, round((now - at.since) * 1000))
    if at.phase in ("running", "arriving") and sight.status == "running":
        shown |= awaited(sight.run, at)
    if at.phase == "resting":
        shown["rests_until"] = timestamp(at.rest_until)
        shown |= at.result.only("retry").to_json()
    if at.phase == "asking":
        stages = [gate.stage for gate in gates if gate.frame == at.frame]
        shown["stage"] = stages[-1] if stages else at.name
    if at.result.error is not None:
        shown["error"] = at.result.message
    known = at.result.only("agent", "model", "permissions", "session_id", "denials")
    return shown | known.to_json()


def _look(sight: RunView, place: Place) -> str | None:
    """The command that shows what the step printed that has stopped the run."""

    failed = [at.path for at in _cursors(sight) if at.phase in ("failed", "lost")]
    if sight.status != "failed" and not (sight.status == "paused" and failed):
        return None
    results = _results(sight.document)
    steps = {name: results[name] for name in _steps(sight.document) if name in results}
    look = what_to_look_at(sight.run.id, failed, steps, is_denied=is_denied(sight.document))
    return None if look is None else place.command("logs", *look)


def _waiting_gates(sight: RunView) -> list[Approval]:
    is_waiting = sight.status in ("running", "interrupted", "paused")
    return pending_gates(sight.document) if is_waiting else []


def next_commands(sight: RunView, place: Place) -> list[str]:
    """The commands with which a person can go on."""
    from orchestrate.app.give_up import is_cancelling

    run_id = sight.run.id
    if sight.status in FINAL or is_cancelling(sight.run):
        return []
    gates = _waiting_gates(sight)
    if sight.is_live and not gates:
        return []
    if gates:
        # One that waits needs no name.
        names = [gate.stage for gate in gates] if len(gates) > 1 else [None]
        return [
            place.command(verb, run_id, *filter(None, [name]))
            for name in dict.fromkeys(names)
            for verb in ("approve", "deny")
        ]

    if sight.status != "failed":
        return [place.command("resume", run_id, *as_started_flag(sight))]
    flags = _resume_flags(sight)
    if is_denied(sight.document) or is_at_end(sight.document) or flags is None:
        return []
    failed = [(at.frame, at.result) for at in _cursors(sight) if at.phase == "failed"]
    more = (*values_wanted(failed), *as_started_flag(sight))
    return [place.command("resume", run_id, *flags, *more)]


def _resume_flags(sight: RunView) -> tuple[str, ...] | None:
    if sight.ending is None:
        return ()
    engine = sight.document["engine"]
    root = engine["root"]
    visits = root.get("visits", {}).get(root["here"][0], 0) if "here" in root else 0
    return resume_flags(sight.ending, Reached(visits, engine["steps_run"], engine["restarts"]))
