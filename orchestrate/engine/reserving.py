"""Money is set aside before an agent is asked, and only if it fits into every budget around it.

The budgets are those of the run, of the calls around the step, of the recipe's and of the user's
day; a step's own limit is held by what its visit has used. All of it is looked at and written down
while the run's state stands still and the user's ledger is locked: neither two items of a loop nor
two runs can set the same dollar aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from orchestrate.agents.registry import STAND_INS
from orchestrate.engine.costing import (
    LOOK_BACK_S,
    EarlierCalls,
    MoneyRules,
    earlier_calls,
    is_of_recipe,
)
from orchestrate.engine.faults import NoRoom
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.errors import OrchestrateError
from orchestrate.exits import Ending, EndKind, end
from orchestrate.plan.nodes import Ask
from orchestrate.plan.visible import plural
from orchestrate.record import record, replace
from orchestrate.state.events import AttemptEnded, CostReserved, Event, StepFinished
from orchestrate.state.ledger import LedgerEntry, day_of
from orchestrate.state.model import Frame, RunState, frames_below, plan_stack
from orchestrate.state.result import Costs, StepResult
from orchestrate.state.spending import called_around, reserved_below

# Sums of binary fractions may miss a round limit by this much.
_DUST = 1e-9


@record
class Purse:
    """A budget of dollars. `kind` is how a run ends that it parks, `way_out` what allows more."""

    name: str
    kind: EndKind
    way_out: str
    most: float
    spent: float
    reserved: float = 0.0
    unknown: int = 0

    @property
    def room(self) -> float:
        return self.most - self.spent - self.reserved

    def told(self, need: float) -> dict[str, Any]:
        return {
            "limit": self.name, "limit_usd": self.most, "spent_usd": round(self.spent, 6),
            "reserved_usd": round(self.reserved, 6), "unknown": self.unknown,
            "needed_usd": round(need, 6),
        }  # fmt: skip

    def words(self, need: float) -> str:
        unknown = f", {plural(self.unknown, 'call')} did not say" * bool(self.unknown)
        reserved = f", {usd(self.reserved)} reserved" * bool(self.reserved)
        return (
            f"{self.name} is reached: {usd(self.spent)} of {usd(self.most)} spent{unknown}"
            f"{reserved}; the next call may need {usd(need)}"
        )


def usd(amount: float) -> str:
    whole, _, fraction = f"{amount:.4f}".partition(".")
    return f"${whole}.{fraction[:2]}{fraction[2:].rstrip('0')}"


def is_billed(rt: Runtime) -> bool:
    """Can calls of this run cost anything? Not those of whoever stands in for all agents."""
    return rt.rehearsal is None and rt.rules.backend not in STAND_INS


def reserve(step: Step, *, may_wait: bool) -> Ending | None:
    """Set money aside for the step's next call; how the run parks if there is not enough.

    `NoRoom` if there may be when other calls have ended: with `may_wait` some are about to.
    """
    if not isinstance(step.node.op, Ask) or step.is_rehearsed or not is_billed(step.rt):
        return None
    return step.rt.store.look(lambda state: _reserve(step, state, may_wait=may_wait))


def _reserve(step: Step, state: RunState, *, may_wait: bool) -> Ending | None:
    rt, here = step.rt, step.here
    rules = rt.rules.money
    if here.reserved:
        return None  # before a kill, or a stop
    over = _over_step_limit(step)
    if over is not None:
        return over
    own = list(_own_purses(rt, state, step.frame))
    days = list(_days(step))
    if not own and not days:
        return None
    if rules.unknown == "refuse" and state.costs.unreported:
        return _refuse_unknown(state.costs)
    with rt.ledger.holding() if days else nullcontext():
        over = next((found for day in days if (found := day.over())), None)
        if over is not None:
            return over
        purses = [*own, *(purse for day in days for purse in day.purses(rules))]
        return _set_aside(step, state, purses, may_wait=may_wait)


def _set_aside(
    step: Step, state: RunState, purses: list[Purse], *, may_wait: bool
) -> Ending | None:
    rt, here, rules = step.rt, step.here, step.rt.rules.money
    earlier = _earlier(step)
    left = None if step.node.most_cost is None else step.node.most_cost - here.used[0]
    need = earlier.need(left, rules.guess_usd)
    may_wait = may_wait or reserved_below(state.root) > 0
    if not earlier.own and may_wait and _is_under_way(step, state):
        raise NoRoom  # what the first call of a step costs is worth waiting for
    scarce = min(purses, key=lambda purse: purse.room, default=None)
    if scarce is not None and need > scarce.room + _DUST:
        if may_wait:
            raise NoRoom
        words = f"{scarce.words(need)}; {scarce.way_out}"
        return end(scarce.kind, words, scarce.told(need))
    cap = None if scarce is None else _cap(step, state, scarce.room, need, left)
    counts = earlier.often or earlier.last or rules.guess_usd
    event = CostReserved(
        step.frame.key, step.node.id, here.visit, step.attempt, rt.now(), round(need, 6),
        0.0 if rules.unknown == "allow" else round(counts, 6), cap,
    )  # fmt: skip
    rt.ledger.write(replace(_entry(step, event.at), reserved_usd=event.usd))
    rt.store.record(event)
    return None


def _cap(step: Step, state: RunState, room: float, need: float, left: float | None) -> float:
    """What the program itself may spend: what is set aside, and its share of what is free.

    Items that are about to ask have theirs: all caps together never exceed the budget.
    """
    others = sum(
        frame is not step.frame
        and frame.here is not None
        and not frame.here.reserved
        and frame.here.phase == "arriving"
        and isinstance(step.rt.store.index.here(frame).node.op, Ask)
        for frame in frames_below(state.root)
    )
    handed = sum(
        frame.here.reserved.get("cap", 0.0) - frame.here.reserved.get("usd", 0.0)
        for frame in frames_below(state.root)
        if frame.here is not None and "cap" in frame.here.reserved
    )
    free = max(room - need - handed, 0.0)
    cap: float = need + free / (others + 1)
    return round(cap if left is None else min(cap, left), 4)


def _is_under_way(step: Step, state: RunState) -> bool:
    """Is another call of the same step not settled yet?"""
    return any(
        frame is not step.frame
        and frame.here is not None
        and frame.here.reserved
        and (frame.plan, frame.here.node) == (step.frame.plan, step.node.id)
        for frame in frames_below(state.root)
    )


def _over_step_limit(step: Step) -> Ending | None:
    dollars, tokens = step.here.used
    node = step.node
    again = "resume allows as much again"
    if node.most_cost is not None and dollars >= node.most_cost - _DUST:
        purse = Purse(f"limits.cost_usd of step '{node.name}'", "step-limit", again,
                      node.most_cost, dollars)  # fmt: skip
        return end("step-limit", f"{purse.words(node.most_cost)}; {again}",
                   purse.told(node.most_cost))  # fmt: skip
    if node.most_tokens is not None and tokens >= node.most_tokens:
        words = f"{tokens:.0f} of {plural(node.most_tokens, 'token')} used"
        return end(
            "step-limit", f"limits.tokens of step '{node.name}' is reached: {words}; {again}"
        )
    return None


def _refuse_unknown(costs: Costs) -> Ending:
    silent = plural(costs.unreported, "call")
    return end(
        "unknown-cost",
        f"{silent} did not report what it cost, and costs.unknown is refuse; set costs.prices of "
        "the model, or costs.unknown to count or allow, in the configuration",
    )


# The budgets around a step.


def _own_purses(rt: Runtime, state: RunState, frame: Frame) -> Iterator[Purse]:
    """Those of the run, over all restarts, and of the calls around the step."""
    index, rules = rt.store.index, rt.rules.money
    plans = dict.fromkeys((index.program.main, state.root.plan))
    holders = [(plan_id, state.root, state.costs, "") for plan_id in plans]
    holders += [(f.plan, f, f.costs, f" of {f.plan}") for f in called_around(frame)]
    for plan_id, holder, costs, whose in holders:
        most = index.plan(plan_id).limits.max_cost
        if most is not None:
            yield Purse(
                f"limits.cost_usd{whose}", "max-cost", "--max-cost allows more", most,
                rules.counted(costs), reserved_below(holder), costs.unreported,
            )  # fmt: skip


def own_purses(rt: Runtime, state: RunState) -> list[Purse]:
    """The run's own budgets of dollars."""
    return list(_own_purses(rt, state, state.root))


@record
class _Day:
    """What a recipe, or the user with all runs, may use in a day, and the other calls of it."""

    whose: str
    where: str
    cost: float | None
    tokens: int | None
    calls: int | None
    found: list[LedgerEntry]

    @property
    def way_out(self) -> str:
        return f"go on tomorrow, or allow more {self.where}"

    def over(self) -> Ending | None:
        """How the run parks if no call is left, or all tokens are used."""
        used = sum(entry.tokens for entry in self.found)
        for name, count, most in (
            ("tokens", used, self.tokens),
            ("calls", len(self.found), self.calls),
        ):
            if most is not None and count >= most:
                words = (
                    f"{self.whose}limits.per_day.{name} is reached: {count} of {most} used today"
                )
                return end("day-limit", f"{words}; {self.way_out}")
        return None

    def purses(self, rules: MoneyRules) -> Iterator[Purse]:
        if self.cost is None:
            return
        settled = [entry for entry in self.found if entry.is_settled]
        spent = sum(rules.counted_entry(entry) for entry in settled)
        reserved = sum(entry.reserved_usd for entry in self.found if not entry.is_settled)
        unknown = sum(entry.cost_usd is None for entry in settled)
        name = f"{self.whose}limits.per_day.cost_usd"
        yield Purse(name, "day-limit", self.way_out, self.cost, spent, reserved, unknown)


def _days(step: Step) -> Iterator[_Day]:
    """The limits of the day around a step: those of its recipes, and the user's."""
    rt = step.rt
    for plan_id in dict.fromkeys(plan_stack(step.frame)):
        limits = rt.store.index.plan(plan_id).limits
        most = (limits.day_cost, limits.day_tokens, limits.day_calls)
        if most != (None, None, None):
            yield _Day(f"{plan_id}: ", "in the file", *most, _others_today(step, plan_id))
    money = rt.rules.money
    most = (money.day_cost, money.day_tokens, money.day_calls)
    if most != (None, None, None):
        yield _Day("the user's ", "in your configuration", *most, _others_today(step, ""))


def _others_today(step: Step, recipe: str) -> list[LedgerEntry]:
    own = _call(step)
    return [entry for entry in calls_today(step.rt, recipe) if entry.call != own]


def calls_today(rt: Runtime, recipe: str = "") -> list[LedgerEntry]:
    """The calls of this day, of a recipe or of all."""
    workspace = rt.store.state.workspace
    found = rt.ledger.day(day_of(rt.now()))
    return [e for e in found if not recipe or is_of_recipe(e, recipe, workspace)]


def _earlier(step: Step) -> EarlierCalls:
    rt = step.rt
    entries = rt.ledger.since(day_of(rt.now() - LOOK_BACK_S))
    return earlier_calls(entries, step.frame.plan, step.own_name, rt.store.state.workspace)


def with_computed(step: Step, usage: StepResult, model: str | None) -> StepResult:
    """What a turn used, with its cost by the prices of its tokens where it did not report one."""
    if usage.cost_usd is not None:
        return usage
    dollars = step.rt.rules.money.computed(model, usage.input_tokens, usage.output_tokens)
    if dollars is None:
        return usage
    return usage | StepResult(cost_usd=dollars, cost_computed=True)


# What is written into the ledger.


def _call(step: Step) -> str:
    return f"{step.rt.facts.id}/{step.attempt_id}"


def _entry(step: Step, at: float) -> LedgerEntry:
    return LedgerEntry(
        call=_call(step),
        at=at,
        run=step.rt.facts.id,
        workspace=step.rt.store.state.workspace,
        recipes=tuple(plan_stack(step.frame)),
        step=step.own_name,
    )


def settle(rt: Runtime, events: list[Event]) -> None:
    """Write down what calls have cost that have just ended, before the run's journal says so.

    A ledger that cannot be written keeps no paid answer from being recorded.
    """
    for event in events:
        if not isinstance(event, AttemptEnded | StepFinished) or not _is_paid(event.result):
            continue
        frame = rt.store.state.frames.get(event.frame)
        if frame is None or frame.here is None or not is_billed(rt):
            continue
        try:
            rt.ledger.write(_settled(Step(rt, frame), event.result))
        except OrchestrateError as error:
            rt.logbook.write("warn", f"[costs] the ledger was not written: {error.message}")


def _is_paid(result: StepResult) -> bool:
    return result.is_turn and result.billed and not result.reused


def _settled(step: Step, result: StepResult) -> LedgerEntry:
    reserved = step.here.reserved
    at = reserved.get("at") or step.here.attempt_since or step.rt.now()
    return replace(
        _entry(step, at),
        agent=result.backend or result.agent or result.provider or "",
        model=result.model,
        is_settled=True,
        cost_usd=result.cost_usd,
        counted_usd=reserved.get("unknown") if result.cost_usd is None else None,
        is_computed=result.cost_computed,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
    )
