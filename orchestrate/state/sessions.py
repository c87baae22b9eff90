"""How the sessions of agents change in a run's state: one is seen, or left for a new one."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from orchestrate.plan.nodes import Ask, Each
from orchestrate.state.events import SessionChosen, SessionSeen
from orchestrate.state.model import (
    Frame,
    Index,
    RunState,
    Session,
    Visit,
    frames_below,
    plan_frame,
)
from orchestrate.state.result import StepResult
from orchestrate.state.visits import frame_of, here_of

# A called machine has a session of its own, which all its steps share.
_OF_CALL = ""


def uses_run_session(frame: Frame, op: Ask) -> bool:
    """Does a step go on in the session of the run? Only those of the main plan do."""
    return op.session == "shared" and plan_frame(frame).parent is None


def kept_session(index: Index, frame: Frame, here: Visit) -> dict[str, Any]:
    """What is known of the session of a step's visit: its own, the one that its rounds share, that
    of the called machine, or one that steps share by name."""
    node = index.place(frame.plan, here.node).node
    op = node.op
    if isinstance(op, Ask) and op.session_name is not None:
        return _holder(index, frame).sessions.setdefault(op.session_name, {})
    if isinstance(op, Ask) and op.session == "shared" and not uses_run_session(frame, op):
        return plan_frame(frame).sessions.setdefault(_OF_CALL, {})
    if not isinstance(op, Ask) or op.session != "kept":
        return here.session
    # No author's name has a colon. A round belongs to the visit of its step that is the newest.
    asked = node.part_of or node.id
    visit = frame.visits.get(asked, 1) if node.part_of else here.visit
    return frame.sessions.setdefault(f":{asked}:{visit}", {})


def _holder(index: Index, frame: Frame) -> Frame:
    """Whose a named session is: the nearest item of a parallel loop's, or else the plan's."""
    while frame.is_iteration:
        assert frame.parent is not None
        each = index.here(frame.parent).node.op
        if isinstance(each, Each) and each.parallel:
            break
        frame = frame.parent
    return frame


def see_session(index: Index, state: RunState, event: SessionSeen) -> None:
    """The session is there: the run's own, or that of a step's visit, whose record names it."""
    frame = frame_of(state, event.frame) if event.node else state.root
    if event.node:
        session = kept_session(index, frame, here_of(frame, event.node, event.visit))
        session |= {"id": event.session, "is_created": True, "agent": event.agent}
        session["is_own"] = event.is_own or session.get("is_own", False)
        session.pop("fork_of", None)
    else:
        state.session.id = event.session
        state.session.is_created = True
        state.session.agent = event.agent
        state.session.is_own = event.is_own or state.session.is_own
        state.session.fork_of = ""
    if frame.here is not None:
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        if result is not None and frame.here.phase == "running":
            frame.steps[name] = result | StepResult(session_id=event.session)


def choose_session(index: Index, state: RunState, event: SessionChosen) -> None:
    """What an earlier turn left belongs to the session that is left."""
    frame = frame_of(state, event.frame) if event.node else state.root
    copied: dict[str, Any] = {}
    if event.fork_of:
        copied = {"fork_of": event.fork_of, "is_forkable": event.is_forkable}
    if event.node:
        kept = kept_session(index, frame, here_of(frame, event.node, event.visit))
        before = dict(kept)
        kept.clear()
        if copied:  # a copy begins with what its original has used
            kept |= copied | {"agent": event.agent, "totals": before.get("totals", {})}
            kept["turn"] = before.get("turn", "")
    else:
        totals = state.session.totals if copied else {}
        turn = state.session.turn if copied else ""
        state.session = Session(
            event.session, agent=event.agent, totals=totals, turn=turn, **copied
        )
    if frame.here is not None:
        frame.here.is_cut_off = False
        frame.here.turn.pop("error", None)


OF_SESSIONS = ("session_id", "new_session_id", "is_new_session")


def sessions_of(state: RunState) -> Iterator[tuple[str, str]]:
    """The sessions that a run may go on in, each as its agent and its id."""
    if state.session.is_created and state.session.id:
        yield state.session.agent, state.session.id
    for frame in frames_below(state.root):
        own = [frame.here.session] if frame.here is not None else []
        for kept in (*frame.sessions.values(), *own):
            if kept.get("is_created") and kept.get("id"):
                yield str(kept.get("agent", "")), str(kept["id"])


def forget_sessions(index: Index, state: RunState, came: Collection[Any]) -> None:
    """The run is a copy: its sessions go on in the original, and two must not share one.

    It may have moved to another machine instead: those that `came` along are still its own.
    """
    if state.session.id not in came:
        state.session = Session()
    for frame in frames_below(state.root):
        frame.sessions = {
            name: kept for name, kept in frame.sessions.items() if kept.get("id") in came
        }
        if frame.here is None:
            continue
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        asked_in = result.session_id if result is not None else None
        if (asked_in or frame.here.session.get("id")) in came:
            continue
        frame.here.session = {}
        frame.here.is_cut_off = False
        if result is not None:
            frame.steps[name] = result.without(*OF_SESSIONS)
