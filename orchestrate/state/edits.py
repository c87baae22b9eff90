"""How an edit changes a run's state: it begins anew, and takes over what is still good."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.nodes import Ask
from orchestrate.state.address import FrameKey
from orchestrate.state.earlier import turn_of
from orchestrate.state.events import Edited, StepFinished
from orchestrate.state.gates import without_pending
from orchestrate.state.model import Frame, Index, RunState, Visit
from orchestrate.state.progress import note_turn
from orchestrate.state.sessions import kept_session
from orchestrate.state.visits import arrive


def begin_edit(index: Index, state: RunState, event: Edited) -> None:
    """The run stands at its beginning again; what was spent, said and decided stays on record."""
    index.turn_to(event.edit)
    block = index.plan(event.plan).blocks[0]
    root = Frame(key=FrameKey(edit=event.edit).text, plan=event.plan, block=block.id)
    root.variables = dict(event.context)
    # Sessions cannot go back: the same ones are told what does not count any more.
    root.sessions = {name: one | {"turn": ""} for name, one in state.root.sessions.items()}
    state.session.turn = ""
    state.approvals = without_pending(state.approvals)
    state.definition, state.checksum = event.definition, event.checksum
    state.sources, state.edit = event.sources, event.edit
    state.root, state.frames = root, {root.key: root}
    state.restart, state.restarts, state.steps_run, state.has_failures = None, 0, 0, False
    state.skipped, state.late, state.current = [], {}, ""
    state.retry_counts, state.earlier_visits = {}, {}
    state.ending, state.completed_at = None, None
    state.reused, state.saved_usd, state.saved_ms = 0, None, 0
    state.worked = state.worked.left(event.at)
    state.status, state.reason = "running", None
    arrive(root, block.entry)


def reused_document(state: RunState) -> dict[str, Any]:
    """For programs: what the last edit took over; nothing where there is none."""
    if not state.reused:
        return {}
    shown: dict[str, Any] = {
        "steps": state.reused, "saved_usd": state.saved_usd, "saved_ms": state.saved_ms
    }  # fmt: skip
    if state.forked is not None and state.edit == state.forked["edit"] + 1:
        shown["from_run"] = state.forked["run"]
    return {"reused": shown}


def keep_turn(
    index: Index, state: RunState, frame: Frame, here: Visit, event: StepFinished
) -> None:
    """The last turn of a session that stands; one that an edit takes over brings its session."""
    note_turn(index, state, frame, event)
    op = index.place(frame.plan, here.node).node.op
    is_shared = isinstance(op, Ask) and op.session == "shared"
    if not isinstance(op, Ask) or not (is_shared or op.session_name):
        return
    result = event.result
    known: dict[str, Any] = {"turn": here.key, "told": state.edit}
    if result.reused:
        known = {"turn": turn_of(event.key)}
    if result.reused and result.session_id is not None:
        # Another run's session is its own: a turn of ours begins as a copy of it.
        known |= (
            {"fork_of": result.session_id}
            if result.from_run is not None
            else {"is_created": True, "is_own": True, "id": result.session_id}
        )
        known["agent"] = result.backend or result.agent or ""
        if result.session_totals:
            known["totals"] = dict(result.session_totals)
    if not is_shared:
        kept_session(index, frame, here).update(known)
        return
    for name, value in known.items():
        setattr(state.session, name, value)
