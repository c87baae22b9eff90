"""Adds up what agents' turns used and were refused, for a step and for the run (rulings §7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrate.agent_names import BACKENDS
from orchestrate.record import replace
from orchestrate.state.address import FrameKey
from orchestrate.state.denials import add_denials
from orchestrate.state.events import AttemptEnded, CallWaits, CostReserved
from orchestrate.state.model import Frame, RunState, Visit, frames_below, plan_frame
from orchestrate.state.pending_call import Postponed, Reserved
from orchestrate.state.result import Costs, StepResult

# What an agent's turn may report.
_FIGURES = ("cost_usd", "input_tokens", "output_tokens")


def spent_in(turn: StepResult) -> dict[str, Any]:
    """The figures that a turn reported."""
    return turn.only(*_FIGURES).to_json()


def with_spent(result: StepResult, spent: Mapping[str, Any]) -> StepResult:
    """The result of a step that was reminded: what both of its turns have used."""
    if not spent:
        return result
    own = spent_in(result)
    sums = {
        name: round(spent[name] + own.get(name, 0), 10)
        for name in _FIGURES
        if spent.get(name) is not None
    }
    return result | StepResult.from_json(sums)


def with_denials(frame: Frame, here: Visit, name: str, result: StepResult) -> StepResult:
    """The result with what earlier attempts of this visit were denied, too."""
    before = frame.steps.get(name) if here.attempt else None
    if before is None or not before.denials:
        return result
    return result | StepResult(denials=add_denials(before.denials, result.denials))


def count_denials(state: RunState, frame: Frame, name: str, result: StepResult) -> None:
    """By the step as a person types it; the items of a loop are one, because there may be many."""
    if result.denials:
        step = FrameKey.parse(frame.key).step(name).of_all_items.shown
        more = tuple(replace(denial, step=step) for denial in result.denials)
        state.denials = add_denials(state.denials, more)


def put_off(here: Visit, event: CostReserved | CallWaits | AttemptEnded) -> None:
    """Before a call: money is set aside for it, or it has to wait; perhaps because the one before
    has met the usage limit of its account."""
    since = here.waits.since if here.waits else event.at
    if isinstance(event, AttemptEnded):
        if event.why == "quota":
            backend = event.result.backend or event.result.agent or ""
            agent, until = BACKENDS.get(backend, backend), event.at + event.rest_s
            here.waits = Postponed(why="quota", agent=agent, until=until, since=since)
        return
    if isinstance(event, CallWaits):
        here.waits = Postponed(
            why=event.why, agent=event.agent, until=event.until, ahead=event.ahead, since=since
        )
        if event.why == "quota":
            here.phase, here.rest_until = "resting", event.until
            # It may be hours: others can use what was set aside, and it is set aside anew.
            here.reserved = Reserved()
        return
    if event.given_back:
        here.reserved = Reserved()
        return
    here.reserved = Reserved(
        usd=event.usd,
        tokens=event.tokens,
        at=event.at,
        unknown=event.unknown_usd,
        unknown_tokens=event.unknown_tokens,
        cap=event.cap_usd,
        cap_tokens=event.cap_tokens,
    )


def end_calls(state: RunState) -> None:
    """Where the run is over for good, what its last calls have cost stays unknown: what was set
    aside for one that was not made is free, and one that was made counts as one that did not say.
    """
    if state.ending is None or state.ending.kind not in ("cancelled", "denied"):
        return
    for frame in frames_below(state.root):
        here = frame.here
        if here is None or not here.reserved:
            continue
        if here.phase == "running":
            count_costs(state, frame, here, {}, StepResult(agent=""))
        here.reserved = Reserved()


def reserved_below(frame: Frame) -> float:
    """What is set aside for the calls of a plan, those that it has called included."""
    return sum(call.usd for call in calls_reserved(frame))


def tokens_reserved_below(frame: Frame) -> int:
    return sum(call.tokens for call in calls_reserved(frame))


def calls_reserved(frame: Frame) -> Iterator[Reserved]:
    """What is set aside for each call in a frame and below it."""
    here = (inner.here for inner in frames_below(frame))
    return (visit.reserved for visit in here if visit is not None and visit.reserved)


def counted_besides(turn: StepResult, reserved: Reserved) -> tuple[float | None, int | None]:
    """The dollars and tokens that a turn counts for besides those it told, by what was set aside
    for it; None of what it told, or if nothing was set aside."""
    usd, tokens = reserved.unknown, reserved.unknown_tokens
    if turn.tells_tokens or tokens is None:
        return (usd if turn.cost_usd is None else None), None
    return (usd if turn.cost_usd is None else None), max(tokens - turn.tokens, 0)


def used_with(here: Visit, turn: StepResult, reserved: Reserved) -> list[float]:
    """The dollars and tokens that a visit has used when this turn has ended."""
    usd, tokens = counted_besides(turn, reserved)
    return [
        round(here.used[0] + (turn.cost_usd or usd or 0.0), 10),
        here.used[1] + turn.tokens + (tokens or 0),
    ]


def count_costs(
    state: RunState, frame: Frame, here: Visit, session: dict[str, Any], result: StepResult
) -> None:
    """An agent's turn; the counters that it did not report stay unknown. What was set aside for it
    is free again.

    A provider that a workflow declares costs an unknown amount.
    """
    reserved, here.reserved = here.reserved, Reserved()
    if not result.is_turn or not result.billed:
        return
    counted = counted_besides(result, reserved)
    state.costs = state.costs.with_turn(result, *counted)
    for plan in called_around(frame):
        plan.costs = plan.costs.with_turn(result, *counted)
    here.used = used_with(here, result, reserved)
    totals = result.session_totals
    if totals and session:
        session["totals"] = dict(totals)
    elif totals and plan_frame(frame).parent is None:
        state.session.totals = dict(totals)


def count_call(state: RunState, frame: Frame, *, is_taken_over: bool) -> None:
    """An agent is asked, for the run and for each call around it; the run has counted one already
    that an edit takes over."""
    state.calls += not is_taken_over
    for plan in called_around(frame):
        plan.calls += 1


def count_reused(state: RunState, frame: Frame, result: StepResult) -> None:
    """A result from before the edit stands: the calls around it have paid for it, as the run has. A
    fork begins with nothing spent."""
    state.reused += 1
    state.saved_ms += result.duration_ms
    if result.cost_usd is not None:
        state.saved_usd = round((state.saved_usd or 0.0) + result.cost_usd, 10)
    if state.forked is None and result.is_turn and result.billed:
        for plan in called_around(frame):
            plan.costs = plan.costs.with_turn(result)
            plan.calls += result.attempts


def leave_used(caller: Visit, called: Frame) -> None:
    """A call is made once more, because it failed or its machine begins anew: its limits hold for
    all of it."""
    caller.turn["used"] = [called.costs.to_json(), called.calls, called.worked_before]


def take_used(caller: Visit, called: Frame) -> None:
    if "used" in caller.turn:
        costs, called.calls, called.worked_before = caller.turn.pop("used")
        called.costs = Costs(**costs)


def called_around(frame: Frame) -> Iterator[Frame]:
    """The called plans around a frame, the innermost first."""
    plan = plan_frame(frame)
    while plan.parent is not None:
        yield plan
        plan = plan_frame(plan.parent)


def end_work(state: RunState, at: float, result: StepResult) -> None:
    """An attempt is no longer at work."""
    state.worked = state.worked.ended(at, state.unwatched.seconds_of(result))
    state.unwatched = state.unwatched.until_end(result)
