"""Agent sessions: which one a turn belongs to, who may use it, and what it has cost so far."""

from __future__ import annotations

from typing import Any

from orchestrate.agents.base import Agent, Reply
from orchestrate.agents.costs import Usage, own_usage
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import Ask
from orchestrate.record import field_names, record
from orchestrate.state.events import Event, SessionChosen, SessionSeen


@record
class Turn:
    """One call of an agent. `session` None: the agent makes one up."""

    session: str | None
    is_new: bool
    is_shared: bool
    agent: str


def begin_turn(step: Step, op: Ask, agent: Agent) -> Turn:
    """The session that the next call uses: the run's own, or one for this step alone.

    The first turn of a session creates it; all others resume it (A §3.1).
    """
    rt = step.rt
    if op.session == "fresh":
        fresh = None if agent.chooses_session else rt.new_session()
        return Turn(fresh, True, False, agent.name)
    session = rt.store.state.session
    is_foreign = session.agent not in ("", agent.name)
    if is_foreign or (session.id is None and not agent.chooses_session):
        rt.store.record(_chosen(step, agent))
        session = rt.store.state.session
    if session.id is not None:
        rt.hold_session(agent.name, session.id)
    return Turn(session.id, not session.is_created, True, agent.name)


def recall_turn(step: Step, op: Ask, agent: Agent) -> Turn:
    """The turn of an attempt that was started before we came, from what was said about it.

    It may still be running: nobody else may use its session until it has ended.
    """
    # What stands there otherwise is about an earlier visit.
    about = step.about if step.is_announced else {}
    session = about.get("session_id")
    is_shared = op.session == "shared"
    known = step.rt.store.state.session
    is_new = not (is_shared and known.is_created)
    if not about:
        # A power cut took what was said about it. The answer will name the session; until then
        # it is the run's own, or one whose name nobody knows.
        session = known.id if is_shared else None
        if session is None and not agent.chooses_session:
            session = step.rt.new_session()
    if is_shared and session is not None:
        step.rt.hold_session(agent.name, session)
    return Turn(session, bool(about.get("is_new_session", is_new)), is_shared, agent.name)


def seen(step: Step, turn: Turn, session: str | None) -> list[Event]:
    """The agent has shown the id of its session: it is kept at once."""
    state = step.rt.store.state.session
    if not turn.is_shared or session is None or (state.is_created and state.id == session):
        return []
    return [SessionSeen(step.rt.now(), session, turn.agent)]


def after_answer(step: Step, turn: Turn, reply: Reply) -> list[Event]:
    return seen(step, turn, reply.session or turn.session)


def after_failure(step: Step, turn: Turn, agent: Agent) -> list[Event]:
    """A failed first call can use its id up: the next one gets a new id (agent-clis.md)."""
    return [_chosen(step, agent)] if turn.is_shared and turn.is_new else []


def _chosen(step: Step, agent: Agent) -> SessionChosen:
    fresh = None if agent.chooses_session else step.rt.new_session()
    return SessionChosen(step.rt.now(), fresh, agent.name)


def usage_of(step: Step, turn: Turn, reply: Reply) -> dict[str, Any]:
    """What this turn used, and what the session has used with it (rulings §7)."""
    before = Usage(**step.rt.store.state.session.totals) if turn.is_shared else Usage()
    own, totals = own_usage(reply, before)
    known = _known(own)
    usage = {name: known[name] for name in known if not _has_no_base(name, turn, reply, before)}
    # After a failed first turn the next one starts another session, which begins at nothing.
    if turn.is_shared and (reply.failure is None or not turn.is_new) and _known(totals):
        usage["session_totals"] = _known(totals)
    return usage


def _has_no_base(name: str, turn: Turn, reply: Reply, before: Usage) -> bool:
    """A running total of a session whose earlier total nobody knows: the turn's part is unknown."""
    counts_up = reply.cost_counts_up if name == "cost_usd" else reply.tokens_count_up
    return counts_up and not turn.is_new and getattr(before, name) is None


def _known(usage: Usage) -> dict[str, Any]:
    """The figures that were reported."""
    figures = {name: getattr(usage, name) for name in field_names(usage)}
    return {name: value for name, value in figures.items() if value is not None}
