"""What `status --json` answers; the text of `status` is drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrate.state.codec import machine_record
from orchestrate.state.edits import reused_document
from orchestrate.state.gates import gate_names
from orchestrate.state.lineage import forked_document
from orchestrate.state.model import Frame, Loop, RunState
from orchestrate.state.result import Approval, StepResult
from orchestrate.state.stages import stages_of
from orchestrate.state.times import timestamp
from orchestrate.state.worktree import worktree_document
from orchestrate.view.advice import look_command, next_commands, start_over_command
from orchestrate.view.budgets import budgets_document
from orchestrate.view.cursors import Cursor, failed_items
from orchestrate.view.event_words import waits_document
from orchestrate.view.place import Place
from orchestrate.view.rehearsed import banner
from orchestrate.view.result_document import last_outcome, outputs_document
from orchestrate.view.run_summary import FINAL, last_sign
from orchestrate.view.run_view import RunView
from orchestrate.view.waiting import awaited, steps_of_plan

_STEP_FIELDS = ("status", "last_attempt", "exit_code", "duration_ms", "attempts", "outcome",
                "reason", "agent", "model", "model_requested", "permissions", "denials", "recipe",
                "from_run", "reused", "changed")  # fmt: skip


def status_document(
    view: RunView, place: Place, now: float, *, programs_left: bool, takeovers: Sequence[str]
) -> dict[str, Any]:
    """The whole answer. `takeovers` are commands that go on in a session of the run by hand."""
    state = view.state
    gates = view.waiting_gates
    shown = {
        "run_id": state.run_id,
        "run_root": str(view.run.root),
        "dialect": state.dialect,
        "workflow_file": state.definition,
        "status": view.status,
        "reason": None if view.ending is None else view.ending.reason,
        "started_at": timestamp(state.started_at),
        "updated_at": timestamp(state.updated_at),
        "completed_at": None if state.completed_at is None else timestamp(state.completed_at),
        "elapsed_ms": elapsed_ms(view, now),
        **_machine(state),
        "steps": step_summaries(state.root),
        "not_reached": _not_reached(view),
        "current": [_current(at, view, now) for at in view.cursors],
        **last_outcome(state),
        **outputs_document(view.run, state),
        "stage": gates[0].stage if gates else None,
        "approvals": [{"name": name, **gate.question} for gate, name in _named(gates)],
        "decisions": [
            {"name": name, **gate.to_json()}
            for gate, name in _named(state.approvals)
            if gate.status != "pending"
        ],
        "at_terminal": bool(gates) and view.asks_at_terminal,
        "programs_left": programs_left,
        "note": view.note or banner(state.settings),
        "look": look_command(view, place),
        "next": next_commands(view, place),
        "start_over": start_over_command(view, place),
        **_by_dialect(view),
    }
    shown |= lineage_document(state)
    if state.costs.turns:
        shown["costs"] = state.costs.to_json()
    shown |= budgets_document(state, view.index, now if view.is_live else state.updated_at)
    if state.denials:
        shown["denials"] = [denial.to_json() for denial in state.denials]
    if takeovers:
        shown["takeover"] = takeovers[0]
        shown["takeovers"] = list(takeovers)
    return shown


def lineage_document(state: RunState) -> dict[str, Any]:
    """Where a run is from, where it works, and what it took over; nothing of others."""
    return reused_document(state) | worktree_document(state) | forked_document(state)


def _machine(state: RunState) -> dict[str, Any]:
    """Of a run that works in a seat: whose that is."""
    machine = (state.settings.get("seat") or {}).get("machine")
    return {"on_machine": machine} if machine else {}


def _by_dialect(view: RunView) -> dict[str, Any]:
    if view.index is None:
        return {}
    match view.state.dialect:
        case "recipe":
            return {"stages": stages_of(view.index, view.state)}
        case "machine":
            machine = machine_record(view.state, view.index.plan(view.state.root.plan))
            # An id that was chosen for a session which no agent has confirmed may be unused.
            seen = {} if machine["sessionCreated"] else {"sessionId": None}
            return {"machine": machine | seen}
        case _:
            return {}


def elapsed_ms(view: RunView, now: float) -> int:
    """From the start to the end; for a run that was left, to the last sign of life."""
    state = view.state
    end = now
    if not view.is_live or state.status != "running":
        end = state.completed_at or state.updated_at
    if view.status == "interrupted":
        end = last_sign(view.run, end, now)
    return max(0, round((end - state.started_at) * 1000))


def step_summaries(root: Frame) -> dict[str, Any]:
    """The steps of a plan's main block in the order they were first reached; each call has those
    of the plan that it calls."""
    reached = {node: number for number, node in enumerate(root.visits)}
    loops = {loop.name: loop for loop in root.loops.values()}
    names = sorted((*root.steps, *loops), key=lambda name: reached.get(name, -1))
    shown = {
        name: _loop(loops[name], root) if name in loops else _step(root.steps[name])
        for name in names
    }
    if root.call is not None and root.call.owner in shown:
        shown[root.call.owner]["steps"] = step_summaries(root.call)
    return shown


def _not_reached(view: RunView) -> list[str]:
    """The steps outside loops that have not begun; of a machine, some may never do."""
    if view.status in FINAL or view.index is None:
        return []
    root = view.state.root
    begun = {*root.steps, *(loop.name for loop in root.loops.values())}
    return [name for name in steps_of_plan(view.index, view.state) if name not in begun]


def _step(result: StepResult) -> dict[str, Any]:
    shown = dict(result.only(*_STEP_FIELDS).to_json())
    if result.outcome_description is not None:
        shown["otherDescription"] = result.outcome_description
    if result.error is not None:
        shown["error"] = result.message
    if result.steps:
        shown["steps"] = {name: _recorded(one) for name, one in result.steps.items()}
    return shown


def _recorded(result: Any) -> dict[str, Any]:
    """A step of a call that is over; of a loop there is a result per item."""
    if not isinstance(result, list):
        return _step(StepResult.from_json(result))
    standings = [
        {one.get("status") for one in item.values() if isinstance(one, dict)} for item in result
    ]
    failed = [number for number, found in enumerate(standings) if "failed" in found]
    # What another item's failure has stopped still says so.
    completed = sum(not found & {"failed", "running", "pending"} for found in standings)
    status = "failed" if failed else "completed"
    return {"status": status, "total": len(result), "completed": completed, "failed": failed}


def _loop(loop: Loop, root: Frame) -> dict[str, Any]:
    here, failed = root.here, failed_items(loop)
    status = "running"
    if failed:
        status = "failed"
    elif loop.is_closed:
        status = "completed"
    elif here is not None and here.node == loop.node and here.phase == "failed":
        status = "failed"
    return {
        "status": status,
        "total": len(loop.items),
        "completed": len(loop.done),
        "failed": failed,
    }


def _named(gates: list[Approval]) -> list[tuple[Approval, str]]:
    """Each gate with the name that no other one has, and that `approve` takes."""
    return list(zip(gates, gate_names(gates), strict=True))


def _current(at: Cursor, view: RunView, now: float) -> dict[str, Any]:
    shown: dict[str, Any] = {"step": at.path, "phase": at.phase, "attempt": at.attempt}
    if at.visit > 1:
        shown["visit"] = at.visit
    if at.since:
        shown["since"] = timestamp(at.since)
        shown["for_ms"] = max(0, round((now - at.since) * 1000))
    if at.phase in ("running", "arriving") and view.status == "running":
        shown |= awaited(view.run, view.index, at)
    if at.waits and at.phase in ("arriving", "resting") and view.status == "running":
        shown["waits"] = waits_document(at.waits)
    if at.phase == "resting":
        shown["rests_until"] = timestamp(at.rest_until)
        shown |= at.result.only("retry").to_json()
    if at.phase == "asking":
        asked = [one for one in _named(view.waiting_gates) if one[0].frame == at.frame]
        shown["stage"] = asked[-1][0].stage if asked else at.name
        shown["gate"] = asked[-1][1] if asked else at.name
    if at.result.error is not None:
        shown["error"] = at.result.message
    known = at.result.only("agent", "model", "permissions", "session_id", "denials")
    return shown | known.to_json()
