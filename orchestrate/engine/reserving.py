"""Money is set aside before an agent is asked, and only if it fits into every budget around it.

The budgets are those of the run, of the calls around the step, of the recipe's and of the user's
day; a step's own limit is held by what its visit has used. All of it is looked at and written down
while the run's state stands still and the user's ledger is locked: neither two items of a loop nor
two runs can set the same dollar aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import TypeGuard

from orchestrate.agents.registry import STAND_INS
from orchestrate.engine.costing import (
    LOOK_BACK_S,
    EarlierCalls,
    earlier_calls,
)
from orchestrate.engine.day_budgets import DayLimit, day_budgets, day_limits
from orchestrate.engine.faults import NoRoom
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.errors import OrchestrateError
from orchestrate.exits import BudgetKind, Ending, EndKind, end
from orchestrate.plan.nodes import Ask, CommandTemplate, NamedAgent
from orchestrate.plan.visible import plural
from orchestrate.record import record, replace
from orchestrate.state.budget import Budget, Unit, budgets_at, step_budgets
from orchestrate.state.events import AttemptEnded, CallWaits, CostReserved, Event, StepFinished
from orchestrate.state.ledger import LedgerEntry
from orchestrate.state.model import Frame, RunState, frames_below, plan_stack
from orchestrate.state.result import Costs, StepResult
from orchestrate.state.spending import calls_reserved, counted_besides

_OfCall = CallWaits | CostReserved | AttemptEnded | StepFinished
# Sums of binary fractions may miss a round limit by this much.
_DUST = 1e-9
# What a call may itself use, as its visit has it.
_CAPS: dict[Unit, str] = {"usd": "cap", "tokens": "cap_tokens"}
# Of several limits that are reached, dollars are told first.
_ORDER: tuple[Unit, ...] = ("usd", "tokens", "calls", "s")
KINDS: dict[Unit, BudgetKind] = {
    "usd": "max-cost",
    "tokens": "max-tokens",
    "calls": "max-calls",
    "s": "max-time",
}


@record
class CappedBudget:
    """A budget; `kind` is how a run ends that it parks, `way_out` what allows more."""

    budget: Budget
    kind: EndKind
    way_out: str

    def parks(self, needed: float | None = None) -> Ending:
        """How the run parks; `needed` is what the next call may need."""
        budget = replace(self.budget, needed=needed)
        reason = f"{budget.limit} is reached: {budget.words}; {self.way_out}"
        return end(self.kind, reason, budget.to_json())


def reserve(step: Step, *, may_wait: bool) -> Ending | None:
    """Set money aside for the step's next call; how the run parks if there is not enough.

    `NoRoom` if there may be when other calls have ended: with `may_wait` some are about to.
    """
    if not _is_billed(step):
        return None
    return step.rt.store.look(lambda state: _reserve(step, state, may_wait=may_wait))


def _is_billed(step: Step) -> bool:
    """Can the step's call cost anything? Not where a person answers, or a recording, for all agents
    or by what the agent's own file says; none stands in for a command that a workflow declares."""
    op, rt = step.node.op, step.rt
    if not isinstance(op, Ask) or step.is_rehearsed:
        return False
    if isinstance(op.agent, CommandTemplate):
        return True
    if rt.rules.backend in STAND_INS:
        return False
    if isinstance(op.agent, NamedAgent):
        with suppress(OrchestrateError):  # which its call tells
            return rt.library.definition_of(op.agent.name, {}).backend not in STAND_INS
    return True


def _reserve(step: Step, state: RunState, *, may_wait: bool) -> Ending | None:
    rt = step.rt
    rules = rt.rules.money
    _free_earlier(step)
    over = _over_step_limit(step)
    if over is not None:
        return over
    own = [p for p in run_budgets(rt, state, step.frame) if p.budget.unit in ("usd", "tokens")]
    if rules.refuses_unknown and (refused := _refuse_unknown(state.costs, own)) is not None:
        return refused
    days = day_limits(rt, step.frame)
    is_limited = own or days or any(_step_budgets(step))
    if not is_limited and not rules.refuses_unknown:
        return None
    with rt.ledger.holding() if days else nullcontext():
        capped = [*own, *budgets_of_day(rt, days, but=_call(step))]
        return _set_aside(step, state, capped, may_wait=may_wait)


def _set_aside(
    step: Step, state: RunState, capped: list[CappedBudget], *, may_wait: bool
) -> Ending | None:
    rt, here, rules = step.rt, step.here, step.rt.rules.money
    earlier = _earlier(step)
    left = {budget.unit: budget.room for budget in _step_budgets(step)}
    need = earlier.need(left.get("usd"), rules.guess_usd)
    # A call whose tokens cannot be estimated is made as long as there is one left.
    tokens, unknown_tokens = earlier.need_tokens(rules)
    needs: dict[Unit, float] = {"usd": need, "tokens": max(tokens, 1), "calls": 1}
    may_wait = may_wait or _is_any_reserved(state)
    is_first = bool(capped) and not earlier.is_known
    is_first = is_first or (rules.refuses_unknown and not earlier.own)
    if is_first and may_wait and _is_under_way(step, state):
        raise NoRoom  # what the first call of a step costs is worth waiting for
    lacking = [p for p in capped if needs[p.budget.unit] > p.budget.room + _DUST]
    if lacking:
        if may_wait:
            raise NoRoom
        first = min(lacking, key=lambda p: (_ORDER.index(p.budget.unit), p.budget.room))
        return first.parks(needs[first.budget.unit])
    caps = {unit: _cap(step, state, capped, unit, needs[unit], left.get(unit)) for unit in _CAPS}
    counts = earlier.often or earlier.last or rules.guess_usd
    event = CostReserved(
        step.frame.key, step.node.id, here.visit, step.attempt, rt.now(), round(need, 6),
        0.0 if rules.unknown == "allow" else round(counts, 6), caps["usd"], tokens,
        cap_tokens=None if caps["tokens"] is None else round(caps["tokens"]),
        unknown_tokens=unknown_tokens,
    )  # fmt: skip
    entry = replace(_entry(step, event.at), reserved_usd=event.usd, reserved_tokens=event.tokens)
    rt.ledger.write(replace(entry, cap_usd=event.cap_usd))
    rt.store.record(event)
    return None


def _cap(
    step: Step,
    state: RunState,
    capped: list[CappedBudget],
    unit: Unit,
    need: float,
    left: float | None,
) -> float | None:
    """What the call itself may use: what is set aside, and its share of what is free; None where
    nothing limits it.

    Items that are about to ask have theirs: all caps together never exceed the budget.
    """
    rooms = [one.budget.room - _handed(step, state, one, unit) for one in capped
             if one.budget.unit == unit]  # fmt: skip
    if not rooms:
        return None if left is None else round(left, 4)
    others = sum(
        frame is not step.frame
        and frame.here is not None
        and not frame.here.reserved
        and frame.here.phase == "arriving"
        and isinstance(step.rt.store.index.here(frame).node.op, Ask)
        for frame in frames_below(state.root)
    )
    cap = need + max(min(rooms) - need, 0.0) / (others + 1)
    return round(cap if left is None else min(cap, left), 4)


def _handed(step: Step, state: RunState, one: CappedBudget, unit: Unit) -> float:
    """How much more than was set aside for them other calls may use: in a day's budget those of
    other runs, too."""
    if one.kind == "day-limit" and unit == "usd":
        ledger = step.rt.ledger.today(step.rt.now())
        others = [e for e in ledger if not e.is_settled and e.call != _call(step)]
        return sum(max((e.cap_usd or 0.0) - e.reserved_usd, 0.0) for e in others)
    calls = [
        (call.cap, call.usd) if unit == "usd" else (call.cap_tokens, call.tokens)
        for call in calls_reserved(state.root)
    ]
    return sum(max(cap - reserved, 0.0) for cap, reserved in calls if cap is not None)


def _is_under_way(step: Step, state: RunState) -> bool:
    """Is another call of the same step not settled yet?"""
    return any(
        frame is not step.frame
        and frame.here is not None
        and frame.here.reserved
        and (frame.plan, frame.here.node) == (step.frame.plan, step.node.id)
        for frame in frames_below(state.root)
    )


def _is_any_reserved(state: RunState) -> bool:
    """Is a call not settled yet, which may give back what it does not need?"""
    return any(calls_reserved(state.root))


def _over_step_limit(step: Step) -> Ending | None:
    for budget in _step_budgets(step):
        if budget.room <= _DUST:
            return CappedBudget(budget, "step-limit", "resume allows as much again").parks()
    return None


def _refuse_unknown(costs: Costs, own: list[CappedBudget]) -> Ending | None:
    """Tokens have to be known only where they are limited."""
    silent, what, more = costs.unreported, "what it cost", ""
    if silent:
        more = "; costs.prices of the model tell what later calls cost"
    elif any(one.budget.unit == "tokens" for one in own):
        silent, what = costs.tokens_unreported, "how many tokens it took"
    if not silent:
        return None
    return end(
        "unknown-cost",
        f"{plural(silent, 'call')} did not report {what}, and costs.unknown is refuse; set "
        f"costs.unknown to count or allow in the configuration{more}",
    )


# The budgets around a step.


def _step_budgets(step: Step) -> Iterator[Budget]:
    return step_budgets(step.rt.store.index, step.frame, step.here.used)


def run_budgets(rt: Runtime, state: RunState, frame: Frame) -> Iterator[CappedBudget]:
    """Those of the run, over all restarts, and of the calls around the step."""
    counted = rt.rules.money.counted
    for budget in budgets_at(rt.store.index, state, frame, rt.now(), counted):
        kind = KINDS[budget.unit]
        yield CappedBudget(budget, kind, f"--{kind} allows more")


def budgets_of_day(rt: Runtime, limits: list[DayLimit], but: str = "") -> Iterator[CappedBudget]:
    """Those of the day, without the call `but`."""
    for limit in limits:
        for budget in day_budgets(rt, limit, but):
            yield CappedBudget(budget, "day-limit", limit.way_out)


def _earlier(step: Step) -> EarlierCalls:
    rt = step.rt
    entries = rt.ledger.since(rt.now() - LOOK_BACK_S)
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
        root=str(step.rt.run.root),
    )


def settle(rt: Runtime, events: list[Event]) -> None:
    """Write down what calls have cost that have just ended, before the run's journal says so.

    A ledger that cannot be written keeps no paid answer from being recorded.
    """
    for event in events:
        if not isinstance(event, AttemptEnded | StepFinished) or not _is_paid(event.result):
            continue
        frame = rt.store.state.frames.get(event.frame)
        if frame is None or frame.here is None or not _is_billed(Step(rt, frame)):
            continue
        try:
            rt.ledger.write(_settled(Step(rt, frame), event.result))
        except OrchestrateError as error:
            rt.logbook.write("warn", f"[costs] the ledger was not written: {error.message}")


def given_back(step: Step) -> list[Event]:
    """What was set aside for a call that is not made now, for a resume of the run reserves it
    anew."""
    here = step.here
    if step.is_announced or not here.reserved:
        return []
    at = step.rt.now()
    return [CostReserved(step.frame.key, step.node.id, here.visit, step.attempt, at, 0.0,
                         given_back=True)]  # fmt: skip


def _free_earlier(step: Step) -> None:
    """What a run that was killed has set aside for a call that it never made is set aside anew: by
    now another limit may hold, and it may be another day."""
    if events := given_back(step):
        voids = put_off(step.rt, events)
        step.rt.store.record(*events)
        give_back(step.rt, voids)


def put_off(rt: Runtime, events: list[Event]) -> list[LedgerEntry]:
    """What was set aside for calls that are not made, or have cost nothing, as entries that give it
    back; asked before the events are folded in."""
    frames = rt.store.state.frames
    unpaid = [frames[e.frame] for e in events if _is_unpaid(e) and e.frame in frames]
    return [
        replace(_entry(Step(rt, frame), frame.here.reserved.at), is_void=True)
        for frame in unpaid
        if frame.here is not None and frame.here.reserved
    ]


def _is_unpaid(event: Event) -> TypeGuard[_OfCall]:
    """Does it free what was set aside for a call, without anything to pay?"""
    if isinstance(event, CallWaits):
        return event.why == "quota"
    if isinstance(event, CostReserved):
        return event.given_back
    return isinstance(event, AttemptEnded | StepFinished) and not _is_paid(event.result)


def give_back(rt: Runtime, voids: list[LedgerEntry]) -> None:
    """Written after the run's journal says so: a kill in between leaves too much set aside, not too
    little, until the call is looked at again."""
    for entry in voids:
        with suppress(OrchestrateError):
            rt.ledger.write(entry)


def _is_paid(result: StepResult) -> bool:
    return result.is_turn and result.billed and not result.reused


def _settled(step: Step, result: StepResult) -> LedgerEntry:
    reserved = step.here.reserved
    at = reserved.at or step.here.attempt_since or step.rt.now()
    counted_usd, counted_tokens = counted_besides(result, reserved)
    return replace(
        _entry(step, at),
        agent=result.backend or result.agent or result.provider or "",
        model=result.model,
        is_settled=True,
        cost_usd=result.cost_usd,
        counted_usd=counted_usd,
        counted_tokens=None if counted_tokens is None else result.tokens + counted_tokens,
        is_computed=result.cost_computed,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
    )
