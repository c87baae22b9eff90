"""Agent sessions: which one a turn belongs to, who may use it, and what it has cost so far.

A machine's steps share the run's session, those of a called one a session of the call; other steps
share one by its name (`session: NAME`), or every visit has one of its own. A session that was
*seen* (its id came back, or its file is there) is continued whatever became of its last turn; a new
one begins only where the agent says that there is none (rulings §7).
"""

from __future__ import annotations

from typing import Any

from orchestrate.agents.base import Agent, Question, Reply
from orchestrate.agents.costs import Usage, own_usage
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import Ask
from orchestrate.record import field_names, record, replace
from orchestrate.state.events import Event, SessionChosen, SessionSeen
from orchestrate.state.model import Session
from orchestrate.state.result import StepResult
from orchestrate.state.sessions import kept_session, uses_run_session

_SESSION_IN_FIRST = 256 * 1024


@record
class Turn:
    """One call of an agent. `session` None: the agent makes one up."""

    session: str | None
    is_new: bool
    is_shared: bool
    agent: str
    # The last turn in the session has no end.
    is_after_cut: bool = False
    # The session of another run that this one begins as a copy of; or only follows, where the agent
    # cannot copy one.
    fork_of: str = ""
    follows: str = ""


def begin_turn(step: Step, op: Ask, agent: Agent) -> Turn:
    """The session that the next call uses: the run's own, or one for this visit of the step.

    The first turn of a session creates it; all others resume it (A §3.1).
    """
    is_shared = uses_run_session(step.frame, op)
    session = known = _session(step, is_shared)
    is_foreign = session.agent not in ("", agent.name)
    is_missing = session.id is None and not agent.chooses_session
    if is_foreign or (is_shared and is_missing):
        step.rt.store.record(_chosen(step, is_shared, agent))
        session = _session(step, is_shared)
    if session.id is None and not agent.chooses_session:
        session = Session(step.rt.new_session())
    _hold(step, is_shared, agent, session.id)
    is_new = not session.is_created
    is_after_cut = step.here.is_cut_off and not is_new
    turn = Turn(session.id, is_new, is_shared, agent.name, is_after_cut)
    if not is_new or not known.fork_of:
        return turn
    can_fork = agent.forks_sessions and known.is_forkable and not is_foreign
    return replace(turn, **{"fork_of" if can_fork else "follows": known.fork_of})


def recall_turn(step: Step, op: Ask, agent: Agent) -> Turn:
    """The turn of an attempt that was started before we came, from what was said about it.

    It may still be running: no other turn may use its session until it has ended.
    """
    # What stands there otherwise is about an earlier visit.
    about = step.about if step.is_announced else StepResult()
    session = about.session_id or about.new_session_id
    is_shared = uses_run_session(step.frame, op)
    known = _session(step, is_shared)
    is_new = not known.is_created if about.is_new_session is None else about.is_new_session
    if not about:
        # A power cut took what was said about it. The answer will name the session; until then
        # it is the one that is known, or one whose name is unknown.
        session = known.id
    _hold(step, is_shared, agent, session)
    if session is None and not agent.chooses_session:
        session = step.rt.new_session()  # for the looks of it: nothing is asked in it any more
    is_after_cut = step.here.is_cut_off and not is_new
    fork_of = known.fork_of if is_new and known.is_forkable and agent.forks_sessions else ""
    return Turn(session, is_new, is_shared, agent.name, is_after_cut, fork_of)


def end_turn(step: Step, turn: Turn, session: str | None) -> None:
    """A step's session is free again; the run's own is held until the run ends."""
    if not turn.is_shared:
        for used in {turn.session, session}:
            step.rt.release_step_session(turn.agent, used)


def last_turn(step: Step, op: Ask) -> str:
    """The key of the turn before this one in its session; '' if it is the first."""
    is_one_of_many = op.session == "shared" or op.session_name is not None
    return session_of_step(step, op).turn if is_one_of_many else ""


def session_of_step(step: Step, op: Ask) -> Session:
    """The session that the step goes on in, as far as it is known."""
    return _session(step, op.session == "shared")


def _session(step: Step, is_shared: bool) -> Session:
    if is_shared:
        return step.rt.store.state.session
    return Session(**kept_session(step.rt.store.index, step.frame, step.here))


def _hold(step: Step, is_shared: bool, agent: Agent, session: str | None) -> None:
    if session is not None and is_shared:
        step.rt.hold_session(agent.name, session)
    elif session is not None and agent.is_program:
        step.rt.hold_step_session(agent.name, session)


def seen(step: Step, turn: Turn, session: str | None) -> list[Event]:
    """The agent has shown the id of its session: it is kept at once."""
    known = _session(step, turn.is_shared)
    if session is None or (known.is_created and (known.id, known.agent) == (session, turn.agent)):
        return []
    return [SessionSeen(step.rt.now(), session, turn.agent, **_whose(step, turn.is_shared),
                        is_own=turn.is_new)]  # fmt: skip


def after_failure(step: Step, turn: Turn, agent: Agent, session: str | None) -> list[Event]:
    """A session that is there is continued; an id without one may be used up."""
    if session is not None:
        return seen(step, turn, session)
    return [_chosen(step, turn.is_shared, agent)] if turn.is_shared and turn.is_new else []


def session_of(agent: Agent, turn: Turn, reply: Reply) -> str | None:
    """The session that a turn was in; none that was only going to be, and came to nothing."""
    if reply.failure is not None and (turn.is_new or reply.failure.kind == "session"):
        return reply.session if agent.is_program else None
    return reply.session or turn.session


def session_left(step: Step, agent: Agent, turn: Turn, question: Question) -> str | None:
    """The session of a turn whose end was not seen, if there is one."""
    if not turn.is_new:
        return turn.session
    shown = agent.session_in(beginning(step), turn.session)
    if shown is None and turn.session is not None:
        shown = turn.session if agent.has_session(turn.session, question.environment) else None
    return shown


def beginning(step: Step) -> bytes:
    """The part of its output in which a program names its session."""
    try:
        return step.rt.executor_of(step.attempt_id).read(
            step.output("stdout"), size=_SESSION_IN_FIRST
        )
    except OSError:
        return b""


def is_gone(step: Step, turn: Turn) -> bool:
    """Was this run in the session that the agent does not know (any more), or to copy it?"""
    if turn.fork_of:
        return True
    known = _session(step, turn.is_shared)
    return not turn.is_new and (known.id, known.agent) == (turn.session, turn.agent)


def leave(step: Step, turn: Turn, agent: Agent) -> Event:
    """The agent has no such session: the next turn begins another."""
    chosen = _chosen(step, turn.is_shared, agent)
    return replace(chosen, is_forkable=False) if turn.fork_of else chosen


def _chosen(step: Step, is_shared: bool, agent: Agent) -> SessionChosen:
    fresh = None if agent.chooses_session or not is_shared else step.rt.new_session()
    before = _session(step, is_shared)
    is_forkable = before.is_forkable and before.agent in ("", agent.name)
    return SessionChosen(
        step.rt.now(), fresh, agent.name, **_whose(step, is_shared), fork_of=before.fork_of,
        is_forkable=is_forkable or not before.fork_of,
    )  # fmt: skip


def _whose(step: Step, is_shared: bool) -> dict[str, Any]:
    """The visit that a session belongs to; nothing for the run's own."""
    if is_shared:
        return {}
    return {"frame": step.frame.key, "node": step.node.id, "visit": step.here.visit}


def usage_of(step: Step, turn: Turn, reply: Reply) -> StepResult:
    """What this turn used, and what the session has used with it (rulings §7)."""
    session = _session(step, turn.is_shared)
    own, totals = own_usage(reply, Usage(**session.totals))
    known = _known(own)
    used = {name: known[name] for name in known if not _has_no_base(name, turn, reply, session)}
    usage = StepResult.from_json(used)
    # A session that was not seen is not continued: the next one begins at nothing.
    if (reply.failure is None or reply.session is not None) and _known(totals):
        usage |= StepResult(session_totals=_known(totals))
    return usage


def _has_no_base(name: str, turn: Turn, reply: Reply, session: Session) -> bool:
    """A running total of a session whose earlier total is unknown: so is the turn's part.

    What this run has begun started at nothing: a turn without a bill is part of the next total.
    """
    counts_up = reply.cost_counts_up if name == "cost_usd" else reply.tokens_count_up
    has_past = bool(turn.fork_of) or (not turn.is_new and not session.is_own)
    return counts_up and has_past and session.totals.get(name) is None


def _known(usage: Usage) -> dict[str, Any]:
    """The figures that were reported."""
    figures = {name: getattr(usage, name) for name in field_names(usage)}
    return {name: value for name, value in figures.items() if value is not None}
