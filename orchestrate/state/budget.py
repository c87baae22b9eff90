"""What a run may use up, and how much of it is used: the figures that the engine decides by and
that every reader shows.

A budget is of dollars, tokens, calls of agents or seconds of work. The run's own holds over all
restarts and sub-recipes, that of a called plan for the call, that of a step for a visit of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from orchestrate.plan.durations import as_written
from orchestrate.plan.nodes import PlanId
from orchestrate.plan.settings import Limits
from orchestrate.plan.visible import plural
from orchestrate.record import field_names, record
from orchestrate.state.model import Frame, Index, RunState
from orchestrate.state.result import Costs
from orchestrate.state.spending import (
    called_around,
    reserved_below,
    tokens_reserved_below,
)

Unit = Literal["usd", "tokens", "calls", "s"]
# How the name of a limit begins that the user's own configuration sets for a day.
OF_USER = "the user's "
# The dollars and tokens that calls count for.
Counted = Callable[[Costs], tuple[float, int]]


@record
class Budget:
    """`most` None: no limit holds. `unknown` counts calls that did not report what they used;
    `needed` is what the next call may need, where that has kept it from being made."""

    limit: str
    unit: Unit
    most: float | None
    spent: float
    reserved: float = 0
    unknown: int = 0
    needed: float | None = None

    @property
    def room(self) -> float:
        return float("inf") if self.most is None else self.most - self.spent - self.reserved

    @property
    def share(self) -> float:
        """How much of it is used up; 1 is all."""
        return self.spent / self.most if self.most else 0.0

    @property
    def used_words(self) -> str:
        """`$0.80 of $1.00 spent`, `2m10s of 2h worked`."""
        verb = {"usd": "spent", "tokens": "used", "calls": "made", "s": "worked"}[self.unit]
        if self.most is None:
            return f"{amount(self.spent, self.unit)} {verb}"
        used = {"usd": usd(self.spent), "s": as_written(round(self.spent, 1))}.get(
            self.unit, f"{self.spent:.0f}"
        )
        return f"{used} of {amount(self.most, self.unit)} {verb}"

    @property
    def words(self) -> str:
        """`$0.80 of $1.00 spent, $0.20 reserved; the next call may need $0.40`."""
        parts = [self.used_words]
        if self.unknown:
            parts.append(f"{plural(self.unknown, 'call')} did not say")
        if self.reserved:
            parts.append(f"{amount(self.reserved, self.unit)} reserved")
        need = ""
        if self.needed is not None and self.unit in ("usd", "tokens"):
            need = f"; the next call may need {amount(self.needed, self.unit)}"
        return ", ".join(parts) + need

    def to_json(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in field_names(self)}
        rounded = {
            name: round(value, 6) for name, value in shown.items() if isinstance(value, float)
        }
        return {**shown, **rounded}


def amount(value: float, unit: Unit) -> str:
    """A figure with its unit: `$0.40`, `2200 tokens`."""
    match unit:
        case "usd":
            return usd(value)
        case "s":
            return as_written(value)
        case _:
            return plural(round(value), unit.removesuffix("s"))


def usd(value: float) -> str:
    whole, _, fraction = f"{value:.4f}".partition(".")
    return f"${whole}.{fraction[:2]}{fraction[2:].rstrip('0')}"


def counted_for(costs: Costs) -> tuple[float, int]:
    """The dollars and tokens of calls, as far as they told them or it was settled what they count
    for."""
    return (costs.cost_usd or 0.0) + costs.counted_usd, costs.tokens + costs.counted_tokens


def budgets_at(
    index: Index,
    state: RunState,
    frame: Frame,
    now: float,
    counted: Counted = counted_for,
) -> Iterator[Budget]:
    """Those that hold at a frame: the run's, and those of the calls around it."""
    plans: dict[PlanId, None] = dict.fromkeys((index.program.main, state.root.plan))
    for plan_id in plans:
        limits = index.plan(plan_id).limits
        yield from _of_plan(limits, state, state.root, "", now, counted)
    for plan in called_around(frame):
        limits = index.plan(plan.plan).limits
        yield from _of_plan(limits, state, plan, f" of {plan.plan}", now, counted)


def _of_plan(
    limits: Limits,
    state: RunState,
    plan: Frame,
    whose: str,
    now: float,
    counted: Counted,
) -> Iterator[Budget]:
    is_run = plan.parent is None
    costs, calls = (state.costs, state.calls) if is_run else (plan.costs, plan.calls)
    usd, tokens = counted(costs)
    if limits.max_cost is not None:
        yield Budget(
            f"limits.cost_usd{whose}", "usd", limits.max_cost, usd,
            reserved_below(plan), costs.unreported,
        )  # fmt: skip
    if limits.max_calls is not None:
        yield Budget(f"limits.calls{whose}", "calls", limits.max_calls, calls)
    if limits.max_tokens is not None:
        yield Budget(
            f"limits.tokens{whose}", "tokens", limits.max_tokens, tokens,
            tokens_reserved_below(plan), costs.tokens_unreported,
        )  # fmt: skip
    if limits.max_time is not None:
        worked = state.worked.until(now) - (0.0 if is_run else plan.worked_before)
        yield Budget(f"limits.time{whose}", "s", limits.max_time, worked)


def step_budgets(index: Index, frame: Frame, used: list[float]) -> Iterator[Budget]:
    """Those of the step that a frame is at, or of whose check or round: of what a visit has used
    since the run was last started or resumed, all of its rounds included."""
    node = index.here(frame).node
    if node.part_of is not None:
        node = index.place(frame.plan, node.part_of).node
    dollars, tokens = used
    whose = f" of step '{node.name}'"
    if node.most_cost is not None:
        yield Budget(f"limits.cost_usd{whose}", "usd", node.most_cost, dollars)
    if node.most_tokens is not None:
        yield Budget(f"limits.tokens{whose}", "tokens", node.most_tokens, tokens)
