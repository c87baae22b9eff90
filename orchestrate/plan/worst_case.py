"""How often agents are asked at most: what loops, circles, rounds of checks and reminders allow.

Transient troubles that are tried again do not count. Where nothing in the plan is a bound, there is
none, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from orchestrate.plan.circles import nodes_in_circles
from orchestrate.plan.nodes import (
    Ask,
    Block,
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
    plan_of,
)

# How many items a loop has, where that is known before the run; None if not.
CountItems = Callable[[Plan, Each], int | None]
# Calls by plan and node; infinite where nothing bounds them.
Calls = dict[tuple[PlanId, NodeId], float]


def most_calls(program: Program, count_items: CountItems) -> Calls:
    """How often each step that asks an agent may ask it in one run."""
    counter = _Counter(program, count_items)
    counter.count_plan(plan_of(program, program.main), 1.0, ())
    return counter.calls


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
        for block in plan.blocks:
            for node in block.nodes:
                if isinstance(node.op, Ask):
                    key = (plan.id, node.part_of or node.id)
                    turns[key] = turns.get(key, 0) + _turns_of(node.op)
    return max(turns.values(), default=1)


def _turns_of(op: Ask) -> int:
    """An answer without a readable outcome is asked for once more."""
    return 2 if op.outcomes else 1


class _Counter:
    def __init__(self, program: Program, count_items: CountItems) -> None:
        self._program = program
        self._count_items = count_items
        self.calls: Calls = {}

    def count_plan(self, plan: Plan, times: float, callers: tuple[PlanId, ...]) -> None:
        if plan.id in callers:
            times = inf  # a plan that calls itself: only its depth is bounded, not its breadth
        blocks = {block.id: block for block in plan.blocks}
        again = _restarts(plan)
        if again:
            most = plan.limits.max_restarts
            more = inf if most is None else float(most)
            for other in again - {plan.id, *callers}:
                self.count_plan(plan_of(self._program, other), times * more, (*callers, plan.id))
            times *= 1 + more
        if callers.count(plan.id) < 2:
            self._count_block(plan, blocks, plan.blocks[0], times, callers)

    def _count_block(
        self,
        plan: Plan,
        blocks: dict[str, Block],
        block: Block,
        times: float,
        callers: tuple[PlanId, ...],
    ) -> None:
        circles = nodes_in_circles(plan, block)
        nodes = {node.id: node for node in block.nodes}
        for node in block.nodes:
            owner = nodes.get(node.part_of or node.id, node)
            often = times * (_most_visits(plan, owner) if owner.id in circles else 1)
            match node.op:
                case Ask() as op:
                    key = (plan.id, node.id)
                    self.calls[key] = self.calls.get(key, 0.0) + often * _turns_of(op)
                case Each() as op:
                    items = self._count_items(plan, op)
                    most = op.limit if op.rounds is not None else items
                    most = op.limit if most is None else most
                    inner = often * (inf if most is None else most) if most != 0 else 0.0
                    self._count_block(plan, blocks, blocks[op.body], inner, callers)
                case Call(str(called)):
                    self.count_plan(plan_of(self._program, called), often, (*callers, plan.id))
                case Call():
                    self.calls[plan.id, node.id] = (
                        inf  # a file that is known only when it is called
                    )
                case Run() | Wait() | Gate():
                    pass


def _most_visits(plan: Plan, node: Node) -> float:
    most = node.most_visits if plan.limits.max_visits is None else plan.limits.max_visits
    return inf if most is None else float(most)


def _restarts(plan: Plan) -> set[PlanId]:
    return {
        target.plan
        for block in plan.blocks
        for node in block.nodes
        for _, target in node.routes
        if isinstance(target, Restart)
    }
