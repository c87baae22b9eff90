"""`state.json`: the state of a run as people and `jq` read it; `state/decode.py` reads it back.

What people look for stands in C's places. What only the engine needs (cursors, open loops) stands
under `engine`; the results of open frames are not repeated there, for the tree of frames is the
tree under `steps`. Each step and each item of a loop has its own line, and is encoded once.
"""

from __future__ import annotations

from typing import Any

from orchestrate.plan.nodes import Finish, Goto, Plan, Target
from orchestrate.record import field_names
from orchestrate.state.address import FrameKey
from orchestrate.state.durable import compact_json
from orchestrate.state.encoded_results import loop_pieces, step_piece
from orchestrate.state.endings import encoded_ending
from orchestrate.state.marks import marks_of
from orchestrate.state.model import (
    Frame,
    Index,
    Loop,
    RunState,
    Session,
    frames_below,
    open_loop,
)
from orchestrate.state.seal import seal_for
from orchestrate.state.sparse_record import SparseRecord
from orchestrate.state.stages import stages_of
from orchestrate.state.times import timestamp


class Encoder:
    """Writes the states of one run; remembers the bytes of results that do not change."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[str, tuple[Any, bytes]] = {}

    def encode(self, state: RunState) -> bytes:
        """The whole file, sealed with a checksum over everything before it.

        It is put together once: of a long run each copy on the way would take as much again.
        """
        pieces = [b"{\n"]
        for name, body in self._fields(state):
            pieces += (b'  "%b": ' % name.encode("ascii"), *body, b",\n")
        pieces.pop()
        pieces.append(seal_for(*pieces))
        return b"".join(pieces)

    def _fields(self, state: RunState) -> list[tuple[str, list[bytes]]]:
        plain: dict[str, Any] = {
            "schema_version": state.schema_version,
            "run_id": state.run_id,
            "dialect": state.dialect,
            "workflow_file": state.definition,
            "workflow_checksum": state.checksum,
            "sources": state.sources,
            "started_at": timestamp(state.started_at),
            "updated_at": timestamp(state.updated_at),
        }
        if state.completed_at is not None:
            plain["completed_at"] = timestamp(state.completed_at)
        plain |= marks_of(state.settings) | {"status": state.status, "reason": state.reason}
        plain["context"] = state.root.variables
        if state.root.outputs is not None:
            plain["outputs"] = state.root.outputs
        if state.root.undefined:
            plain["outputs_undefined"] = state.root.undefined
        rest: dict[str, Any] = self._by_dialect(state)
        if state.costs.turns:
            rest["costs"] = state.costs.to_json()
        if state.denials:
            rest["denials"] = [denial.to_json() for denial in state.denials]
        rest |= {"settings": state.settings, "orchestrate_version": state.version}
        rest |= {"seq": state.seq, "engine": _engine(state, has_gates="approvals" not in rest)}
        return [
            *((name, [compact_json(value)]) for name, value in plain.items()),
            ("steps", self._steps(state.root)),
            ("for_each", [_loops(state)]),
            *((name, [compact_json(value)]) for name, value in rest.items()),
        ]

    def _steps(self, root: Frame) -> list[bytes]:
        known = self._known
        pieces: list[bytes] = []
        for name, result in root.steps.items():
            remembered = known.get(name)
            if remembered is None or remembered[0] is not result or root.call is not None:
                piece = step_piece(root, name)
                remembered = (result, b"    " + compact_json(name) + b": " + piece)
                known[name] = remembered
            pieces += (remembered[1], b",\n")
        for loop in root.loops.values():
            pieces += (b"    " + compact_json(loop.name), *_item_lines(loop), b",\n")
        return [b"{\n", *pieces[:-1], b"\n  }"] if pieces else [b"{}"]

    def _by_dialect(self, state: RunState) -> dict[str, Any]:
        match state.dialect:
            case "machine":
                return {"machine": machine_record(state, self._index.plan(state.root.plan))}
            case "recipe":
                return {
                    "stages": stages_of(self._index, state),
                    "approvals": [gate.to_json() for gate in state.approvals],
                    "skipped_steps": [skipped.to_json() for skipped in state.skipped],
                }
            case _:
                return {}


def machine_record(state: RunState, plan: Plan) -> dict[str, Any]:
    """How far a machine is (A §2.5)."""
    root = state.root
    return {
        "recipeId": plan.name,
        "currentStep": state.current or (root.here.node if root.here is not None else ""),
        "stepCount": state.steps_run,
        "stepVisitCounts": root.visits,
        "stepRetryCounts": state.retry_counts,
        "startTime": round(state.machine_started * 1000),
        "sessionCreated": state.session.is_created,
        "sessionId": state.session.id,
        "restarts": state.restarts,
        "limits": {
            "maxStepVisits": plan.limits.max_visits,
            "maxTotalSteps": plan.limits.max_steps,
            "maxRestarts": plan.limits.max_restarts,
        },
    }


def _item_lines(loop: Loop) -> list[bytes]:
    items = loop_pieces(loop)
    if not items:
        return [b": []"]
    pieces = [b": [\n      "]
    for item in items:
        pieces += (item, b",\n      ")
    pieces[-1] = b"\n    ]"
    return pieces


def _loops(state: RunState) -> bytes:
    """How far each loop is: those of the main block by name, open ones inside others by address."""
    found: dict[str, Loop] = {loop.name: loop for loop in state.root.loops.values()}
    for frame in frames_below(state.root):
        loop = open_loop(frame)
        if loop is not None and frame is not state.root:
            found[FrameKey.parse(frame.key).step(loop.name).text] = loop
    lines = []
    for name, loop in found.items():
        progress = {
            "items": loop.items,
            "completed_indices": sorted(loop.done),
            "current_index": next(iter(loop.open)) if len(loop.open) == 1 else None,
            "failed_indices": loop.failed,
            "total": len(loop.items),
        }
        lines.append(b"    " + compact_json(name) + b": " + compact_json(progress))
    return b"{\n" + b",\n".join(lines) + b"\n  }" if lines else b"{}"


# What only the engine needs.


def _engine(state: RunState, *, has_gates: bool) -> dict[str, Any]:
    """The engine's own part; it has the gates of a run whose dialect does not show them."""
    return {
        "workspace": state.workspace,
        "root": _frame(state.root),
        "synced": state.synced,
        "clock": state.clock,
        "place": state.place,
        "steps_run": state.steps_run,
        "calls": state.calls,
        "near": state.near,
        "worked": _values_of(state.worked),
        "unwatched": _values_of(state.unwatched),
        "restarts": state.restarts,
        "restart": state.restart,
        "has_failures": state.has_failures,
        "session": _session(state.session),
        "ending": None if state.ending is None else encoded_ending(state.ending),
        "machine_started": state.machine_started,
        "late": state.late,
        "edit": [state.edit, state.reused, state.saved_usd, state.saved_ms],
        "earlier_visits": state.earlier_visits,
        "checkpoint": state.checkpoint,
        "current": state.current,
        "retry_counts": state.retry_counts,
        "approvals": [gate.to_json() for gate in state.approvals if has_gates],
        "skipped": [step.to_json() for step in state.skipped if has_gates],
        "times": [state.started_at, state.updated_at, state.completed_at, state.stopped_at],
        **({} if state.worktree is None else {"worktree": state.worktree}),
        **({} if state.forked is None else {"forked": state.forked}),
    }


def _values_of(value: object) -> list[Any]:
    """The fields of a record, in order."""
    fields = (getattr(value, name) for name in field_names(value))
    return [one.to_json() if isinstance(one, SparseRecord) else one for one in fields]


def _session(session: Session) -> dict[str, Any]:
    """The session of a machine; few are to be copies of another."""
    written = {name: getattr(session, name) for name in field_names(session)}
    if not session.fork_of:
        del written["fork_of"], written["is_forkable"]
    return written


def _frame(frame: Frame) -> dict[str, Any]:
    written: dict[str, Any] = {"key": frame.key, "plan": frame.plan, "block": frame.block}
    here = frame.here
    if here is not None:
        written["here"] = _values_of(here)
    if frame.visits:
        written["visits"] = frame.visits
    if frame.parent is not None and frame.index is None:
        written["variables"] = frame.variables
    if frame.call is not None:
        written["call"] = _frame(frame.call)
    if frame.loops:
        written["loops"] = {node: _loop(frame, loop) for node, loop in frame.loops.items()}
    if frame.approval is not None:
        written["approval"] = frame.approval
    for name in (
        "label", "moving", "owner", "began", "count", "sessions", "calls", "worked_before",
        "anew", "turns", "spread", "merges", "conflicts",
    ):  # fmt: skip
        if getattr(frame, name):
            written[name] = getattr(frame, name)
    if frame.costs.turns:
        written["costs"] = frame.costs.to_json()
    if frame.then is not None:
        written["then"] = _target(frame.then)
    return written


def _loop(frame: Frame, loop: Loop) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": loop.name,
        "next": loop.next_index,
        "failed": loop.failed,
        "stopping": loop.is_stopping,
        "closed": loop.is_closed,
        "open": {str(position): _frame(inner) for position, inner in loop.open.items()},
    }
    if loop.spread:
        written |= {"spread": loop.spread, "label": loop.label}
    if not loop.is_closed:
        written["values"] = {str(position): value for position, value in loop.values.items()}
    if frame.parent is not None:
        written["items"] = loop.items
    return written


def _target(target: Target) -> dict[str, str]:
    match target:
        case Goto(node):
            return {"goto": node}
        case Finish(reason, kind):
            return {"finish": reason, "end": kind}
        case _:
            raise AssertionError(f"a frame cannot be left for {target}")
