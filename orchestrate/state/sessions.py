"""How the sessions of agents change in a run's state: one is seen, or left for a new one."""

from __future__ import annotations

from orchestrate.state.events import SessionChosen, SessionSeen
from orchestrate.state.model import Index, RunState, Session
from orchestrate.state.result import StepResult
from orchestrate.state.routing import frame_of, here_of


def see_session(index: Index, state: RunState, event: SessionSeen) -> None:
    """The session is there: the run's own, or that of a step's visit, whose record names it."""
    frame = frame_of(state, event.frame) if event.node else state.root
    if event.node:
        here = here_of(frame, event.node, event.visit)
        seen = {"id": event.session, "is_created": True, "agent": event.agent}
        here.session = {**here.session, **seen}
        here.session["is_own"] = event.is_own or here.session.get("is_own", False)
    else:
        state.session.id = event.session
        state.session.is_created = True
        state.session.agent = event.agent
        state.session.is_own = event.is_own or state.session.is_own
    if frame.here is not None:
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        if result is not None and frame.here.phase == "running":
            frame.steps[name] = result | StepResult(session_id=event.session)


def choose_session(state: RunState, event: SessionChosen) -> None:
    """What an earlier turn left belongs to the session that is left."""
    frame = frame_of(state, event.frame) if event.node else state.root
    if event.node:
        here_of(frame, event.node, event.visit).session = {}
    else:
        state.session = Session(event.session, agent=event.agent)
    if frame.here is not None:
        frame.here.is_cut_off = False
        frame.here.turn.pop("error", None)
