"""When a run may not go on because it has used up what it may, and when little of that is left.

Calls and time are looked at before each step, dollars and tokens are set aside before they are
spent (`engine/reserving`). What a turn did not report is unknown: the message says how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrate.engine.day_budgets import day_limits
from orchestrate.engine.reserving import KINDS, CappedBudget, budgets_of_day, run_budgets
from orchestrate.engine.runtime import Runtime
from orchestrate.exits import Ending
from orchestrate.plan.nodes import Ask, Each, Gate, Node
from orchestrate.record import replace
from orchestrate.state.budget import Budget, budgets_at, step_budgets
from orchestrate.state.events import AttemptEnded, Event, LimitNear, StepFinished
from orchestrate.state.ledger import day_of
from orchestrate.state.model import Frame, Index, RunState
from orchestrate.state.spending import used_with

_NEAR = 0.8


def budget_reached(
    index: Index, state: RunState, frame: Frame, node: Node, now: float, *, ahead: int = 0
) -> Ending | None:
    """How the run parks if the step at the cursor may not go on; `ahead` agents are about to be
    asked."""
    if isinstance(node.op, Gate | Each):
        return None
    for budget in budgets_at(index, state, frame, now):
        if budget.unit == "usd" or (budget.unit != "s" and not isinstance(node.op, Ask)):
            continue
        more = ahead if budget.unit == "calls" else 0
        if budget.most is not None and budget.spent + more >= budget.most:
            kind = KINDS[budget.unit]
            return CappedBudget(budget, kind, f"--{kind} allows more").parks()
    return None


def is_timed(index: Index, state: RunState, frame: Frame) -> bool:
    """Does the time that has passed say whether a step at this frame may begin?"""
    return any(budget.unit == "s" for budget in budgets_at(index, state, frame, 0.0))


# Warnings.


def frames_used(rt: Runtime, events: Iterable[Event]) -> list[Frame]:
    """Where limits may have come near: where these events end an agent's turn, or any step under a
    limit of time; asked before they are folded in, for the last step of a called file takes its
    frame along."""
    ended = [event for event in events if isinstance(event, AttemptEnded | StepFinished)]
    frames, index = rt.store.state.frames, rt.store.index
    found = [(frames.get(event.frame), event.result) for event in ended]
    return [
        frame
        for frame, result in found
        if frame is not None and (result.is_turn or is_timed(index, rt.store.state, frame))
    ]


def steps_used(rt: Runtime, events: Iterable[Event]) -> list[Budget]:
    """How much of their own limits the steps have used whose calls these events end; asked before
    they are folded in."""
    found: list[Budget] = []
    for event in events:
        if not isinstance(event, AttemptEnded | StepFinished) or not event.result.is_turn:
            continue
        frame = rt.store.state.frames.get(event.frame)
        if frame is None or frame.here is None:
            continue
        used = used_with(frame.here, event.result, frame.here.reserved)
        found += step_budgets(rt.store.index, frame, used)
    return found


def limits_near(
    rt: Runtime, state: RunState, frames: list[Frame], of_steps: list[Budget]
) -> Iterator[LimitNear]:
    """The limits around steps that have ended of which four fifths are used up, and of which that
    was not said yet; behind the last call of a run those of days, which others share."""
    now = rt.now()
    day = day_of(now)
    found = {(budget.limit, ""): budget for budget in of_steps}
    for frame in frames:
        found |= {(p.budget.limit, ""): p.budget for p in run_budgets(rt, state, frame)}
    days = {limit.name: limit for frame in frames for limit in day_limits(rt, frame)}
    found |= {(p.budget.limit, day): p.budget for p in budgets_of_day(rt, [*days.values()])}
    for (limit, of_day), budget in found.items():
        is_over = state.ending is not None and not of_day
        if is_over or budget.most is None or budget.share < _NEAR:
            continue
        words = replace(budget, reserved=0, needed=None).words
        near = LimitNear(now, limit, f"{limit}: {words} ({budget.share:.0%})", budget.most, of_day)
        if near.key not in state.near:
            yield near
