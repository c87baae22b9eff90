"""How often agents are asked at most: what loops, circles, rounds of checks and reminders allow.

Transient troubles that are tried again do not count. Where nothing in the plan is a bound, there is
none, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable
from graphlib import TopologicalSorter
from math import inf

from orchestrate.plan.circles import in_circles, nodes_in_circles
from orchestrate.plan.nodes import (
    Ask,
    Call,
    Each,
    Gate,
    Node,
    NodeId,
    Plan,
    PlanId,
    Program,
    Restart,
    Run,
    Wait,
    nodes_in,
    plan_of,
)
from orchestrate.record import field, record

# How many items a loop has, where that is known before the run; None if not.
CountItems = Callable[[Plan, Each], int | None]
# Calls by plan and node; infinite where nothing bounds them.
Calls = dict[tuple[PlanId, NodeId], float]


def most_calls(program: Program, count_items: CountItems) -> Calls:
    """How often each step that asks an agent may ask it in one run."""
    once = {plan.id: _once_through(plan, count_items) for plan in program.plans}
    calls: Calls = {}
    for started, often in _starts(program, once).items():
        for plan_id, again in _rounds_of(program, started).items():
            for node, asked in once[plan_id].asked.items():
                key = (plan_id, node)
                calls[key] = calls.get(key, 0.0) + times(times(often, again), asked)
    return calls


def times(one: float, other: float) -> float:
    """What never happens does not, however often."""
    return one * other if one and other else 0.0


def most_in_all(program: Program, calls: Calls) -> float:
    """How often agents are asked at most in all: the limits of the whole run count, too."""
    main = plan_of(program, program.main)
    most = sum(calls.values())
    if main.limits.max_steps is not None:
        most = min(most, main.limits.max_steps * _most_turns(program))
    return most if main.limits.max_calls is None else min(most, main.limits.max_calls)


def _most_turns(program: Program) -> int:
    """The turns that one visit of a step may take."""
    turns: dict[tuple[PlanId, NodeId], int] = {}
    for plan in program.plans:
        for node in nodes_in(plan):
            if isinstance(node.op, Ask):
                key = (plan.id, node.part_of or node.id)
                turns[key] = turns.get(key, 0) + _turns_of(node.op)
    return max(turns.values(), default=1)


def _turns_of(op: Ask) -> int:
    """An answer without a readable outcome is asked for once more."""
    return 2 if op.outcomes else 1


@record
class _Once:
    """What going through a plan once does: how often its steps ask, and which plans it calls."""

    asked: dict[NodeId, float] = field(default_factory=dict)
    called: dict[PlanId, float] = field(default_factory=dict)


def _once_through(plan: Plan, count_items: CountItems) -> _Once:
    once = _Once()
    blocks = {block.id: block for block in plan.blocks}
    waiting = [(plan.blocks[0], 1.0)]
    while waiting:
        block, around = waiting.pop()
        circles = nodes_in_circles(plan, block)
        nodes = {node.id: node for node in block.nodes}
        for node in block.nodes:
            owner = nodes.get(node.part_of or node.id, node)
            often = times(around, _most_visits(plan, owner) if owner.id in circles else 1)
            match node.op:
                case Ask() as op:
                    once.asked[node.id] = often * _turns_of(op)
                case Each() as op:
                    items = _rounds(plan, op) if op.rounds else count_items(plan, op)
                    most = op.limit if items is None else items
                    waiting.append((blocks[op.body], times(often, inf if most is None else most)))
                case Call(str(called)):
                    once.called[called] = once.called.get(called, 0.0) + often
                case Call():
                    once.asked[node.id] = inf  # a file that is known only when it is called
                case Run() | Wait() | Gate():
                    pass
    return once


def _starts(program: Program, once: dict[PlanId, _Once]) -> dict[PlanId, float]:
    """How often each plan that is reached is started. Each is looked at once, however many ways
    lead to it; of one that calls itself only the depth is bounded, not the breadth."""
    calls: dict[PlanId, dict[PlanId, float]] = {}
    waiting = [program.main]
    while waiting:
        started = waiting.pop()
        if started in calls:
            continue
        found = calls[started] = {}
        for plan_id, again in _rounds_of(program, started).items():
            for called, often in once[plan_id].called.items():
                if often:
                    found[called] = found.get(called, 0.0) + times(again, often)
        waiting += found
    endless = in_circles({caller: list(called) for caller, called in calls.items()})
    order: TopologicalSorter[PlanId] = TopologicalSorter()
    for caller, found in calls.items():
        order.add(caller)
        for called in found.keys() - endless:
            order.add(called, caller)
    starts = {plan_id: inf if plan_id in endless else 0.0 for plan_id in calls}
    starts[program.main] += 1.0
    for caller in order.static_order():
        for called, often in calls[caller].items():
            starts[called] += times(starts[caller], often)
    return starts


def _rounds_of(program: Program, started: PlanId) -> dict[PlanId, float]:
    """How often each plan is gone through for one start of a plan, which may restart as another:
    there are so many restarts in all, whichever plan each leads to."""
    rounds = {started: 1.0}
    waiting, most = [started], 0.0
    while waiting:
        plan = plan_of(program, waiting.pop())
        again = _restarts(plan)
        if again:
            limit = plan.limits.max_restarts
            most = inf if limit is None else max(most, float(limit))
        waiting += again - rounds.keys()
        rounds |= dict.fromkeys(again - rounds.keys(), 0.0)
    return {plan_id: number + most for plan_id, number in rounds.items()}


def _rounds(plan: Plan, each: Each) -> int | None:
    """How many rounds a loop makes at most: as many as it says, each a visit of its steps."""
    bounds = [bound for bound in (each.limit, plan.limits.max_visits) if bound is not None]
    return min(bounds, default=None)


def _most_visits(plan: Plan, node: Node) -> float:
    most = node.most_visits if plan.limits.max_visits is None else plan.limits.max_visits
    return inf if most is None else float(most)


def _restarts(plan: Plan) -> set[PlanId]:
    return {
        target.plan
        for node in nodes_in(plan)
        for _, target in node.routes
        if isinstance(target, Restart)
    }
