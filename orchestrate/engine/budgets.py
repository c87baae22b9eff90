"""When a run may not go on because it has used up what it may, and when little of that is left.

Calls and time are looked at before each step, dollars and tokens are set aside before they are
spent (`engine/reserving`). What a turn did not report is unknown: the message says how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrate.engine.day_budgets import day_limits
from orchestrate.engine.reserving import KINDS, Purse, day_purses, own_purses
from orchestrate.engine.runtime import Runtime
from orchestrate.exits import Ending
from orchestrate.plan.nodes import Ask, Each, Gate, Node
from orchestrate.record import replace
from orchestrate.state.budget import Budget, budgets_at, step_budgets
from orchestrate.state.events import AttemptEnded, Event, LimitNear, StepFinished
from orchestrate.state.ledger import day_of
from orchestrate.state.model import Frame, Index, RunState

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
            return Purse(budget, kind, f"--{kind} allows more").parks()
    return None


def is_timed(index: Index, state: RunState, frame: Frame) -> bool:
    """Does the time that has passed say whether a step at this frame may begin?"""
    return any(budget.unit == "s" for budget in budgets_at(index, state, frame, 0.0))


# Warnings.


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
        result, here = event.result, frame.here
        cost = here.reserved.get("unknown", 0.0) if result.cost_usd is None else result.cost_usd
        tokens = (result.input_tokens or 0) + (result.output_tokens or 0)
        node = rt.store.index.here(frame).node
        found += step_budgets(node, [here.used[0] + cost, here.used[1] + tokens])
    return found


def limits_near(rt: Runtime, state: RunState, of_steps: list[Budget]) -> Iterator[LimitNear]:
    """The limits of which four fifths are used up, and of which that was not said yet."""
    now = rt.now()
    day = day_of(now)
    own = [(purse.budget, "") for purse in own_purses(rt, state, state.root)]
    days = day_purses(rt, day_limits(rt, state.root))
    for budget, of_day in (*own, *((b, "") for b in of_steps), *((p.budget, day) for p in days)):
        if budget.most is None or budget.share < _NEAR:
            continue
        words = replace(budget, reserved=0, needed=None).words
        near = LimitNear(now, budget.limit, f"{budget.limit}: {words} ({budget.share:.0%})",
                         budget.most, of_day)  # fmt: skip
        if near.key not in state.near:
            yield near
