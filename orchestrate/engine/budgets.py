"""What a run, and each call in it, may use up besides dollars: tokens, time and calls of agents.

A budget is looked at before each call of an agent, time before each step. What a turn did not
report is unknown: the message says how many there were. Dollars are set aside before they are spent
(`engine/reserving`).
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.engine.reserving import own_purses, usd
from orchestrate.engine.runtime import Runtime
from orchestrate.exits import BudgetKind, Ending, end
from orchestrate.plan.nodes import Ask, Each, Gate, Node
from orchestrate.plan.settings import Limits
from orchestrate.plan.visible import plural
from orchestrate.record import record
from orchestrate.state.events import LimitNear
from orchestrate.state.model import Frame, Index, RunState, plan_frame
from orchestrate.state.spending import worked_until

_NEAR = 0.8
_FIELDS: dict[BudgetKind, str] = {
    "max-cost": "cost_usd",
    "max-tokens": "tokens",
    "max-time": "time",
    "max-calls": "calls",
}


@record
class _Purse:
    """A budget of one kind: how much was used of how much, as numbers and in words."""

    kind: BudgetKind
    used: float
    most: float
    words: str


def budget_reached(
    index: Index, state: RunState, frame: Frame, node: Node, now: float, *, ahead: int = 0
) -> Ending | None:
    """How the run parks if the step at the cursor may not go on; `ahead` agents are about to be
    asked."""
    if isinstance(node.op, Gate | Each):
        return None
    for purse, whose in _purses(index, state, frame, now):
        if purse.kind != "max-time" and not isinstance(node.op, Ask):
            continue
        more = ahead if purse.kind == "max-calls" else 0
        if purse.used + more >= purse.most:
            flag = f"--{purse.kind}"
            where = f"limits.{_FIELDS[purse.kind]}{whose}"
            return end(purse.kind, f"{where} is reached: {purse.words}; {flag} allows more")
    return None


def limits_near(rt: Runtime, state: RunState) -> Iterator[LimitNear]:
    """The run's limits of which four fifths are used up, and of which that was not said yet."""
    now = rt.now()
    index = rt.store.index
    purses = [(p.kind, p.used, p.most, p.words) for p, _ in _purses(index, state, state.root, now)]
    for own in own_purses(rt, state):
        words = f"{usd(own.spent)} of {usd(own.most)} spent"
        purses.append(("max-cost", own.spent, own.most, words))
    for kind, used, most, words in purses:
        name = f"limits.{_FIELDS[kind]}"
        if used >= _NEAR * most and name not in state.near:
            yield LimitNear(now, name, f"{name}: {words} ({used / most:.0%})")


def is_timed(index: Index, state: RunState, frame: Frame) -> bool:
    """Does the time that has passed say whether a step at this frame may begin?"""
    return any(purse.kind == "max-time" for purse, _ in _purses(index, state, frame, 0.0))


def _purses(
    index: Index, state: RunState, frame: Frame, now: float
) -> Iterator[tuple[_Purse, str]]:
    """The budgets that hold at a frame: the run's, over all restarts, and those of calls."""
    for plan_id in dict.fromkeys((index.program.main, state.root.plan)):
        limits = index.plan(plan_id).limits
        yield from ((purse, "") for purse in _budgets(limits, state, state.root, now))
    plan = plan_frame(frame)
    while plan.parent is not None:
        limits = index.plan(plan.plan).limits
        yield from ((purse, f" of {plan.plan}") for purse in _budgets(limits, state, plan, now))
        plan = plan_frame(plan.parent)


def _budgets(limits: Limits, state: RunState, plan: Frame, now: float) -> Iterator[_Purse]:
    is_run = plan.parent is None
    costs, calls = (state.costs, state.calls) if is_run else (plan.costs, plan.calls)
    if limits.max_calls is not None:
        words = f"{calls} of {plural(limits.max_calls, 'call')} made"
        yield _Purse("max-calls", calls, limits.max_calls, words)
    if limits.max_tokens is not None:
        used = (costs.input_tokens or 0) + (costs.output_tokens or 0)
        silent = costs.tokens_unreported
        unknown = f", and {plural(silent, 'call')} did not say" * bool(silent)
        words = f"{used} of {plural(limits.max_tokens, 'token')} used{unknown}"
        yield _Purse("max-tokens", used, limits.max_tokens, words)
    if limits.max_time is not None:
        worked = worked_until(state, now) - (0.0 if is_run else plan.worked_before)
        words = f"{worked:.0f} s of {limits.max_time:g} s worked"
        yield _Purse("max-time", worked, limits.max_time, words)
