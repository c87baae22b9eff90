"""Proves the plan's invariants (see `plan/nodes.py`); a failure here is our bug, not the user's."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.errors import InternalError
from orchestrate.plan.nodes import (
    FAILED,
    OK,
    Abort,
    Ask,
    Block,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Leave,
    Node,
    Plan,
    Program,
    Restart,
    Run,
    Target,
    Wait,
    labels_of,
    nodes_in,
)
from orchestrate.plan.settings import Retry


def check_program(program: Program) -> None:
    """Raise `InternalError` naming the first invariant that does not hold."""
    for problem in problems(program):
        raise InternalError(f"the compiler produced an invalid plan: {problem}")


def problems(program: Program) -> Iterator[str]:
    """Every broken invariant, in words."""
    ids = [plan.id for plan in program.plans]
    if len(set(ids)) != len(ids):
        yield "two plans share an id"
    if program.main not in ids:
        yield f"the main plan {program.main!r} is not in the program"
    for plan in program.plans:
        for problem in _plan_problems(plan, frozenset(ids)):
            yield f"{plan.id}: {problem}"


def _plan_problems(plan: Plan, plans: frozenset[str]) -> Iterator[str]:
    if not plan.blocks:
        yield "it has no block"
        return
    block_of = {node.id: block for block in plan.blocks for node in block.nodes}
    if len(block_of) != sum(len(block.nodes) for block in plan.blocks):
        yield "two nodes share an id"
    yield from _nesting_problems(plan, block_of)
    enclosing = {block.id: _enclosing(block, plan, block_of) for block in plan.blocks}
    for block in plan.blocks:
        if block.entry not in {node.id for node in block.nodes}:
            yield f"block {block.id!r} has no entry {block.entry!r}"
        for node in block.nodes:
            yield from _node_problems(node)
            for target in (*(target for _, target in node.routes), node.follow):
                yield from _target_problems(
                    node, target, block, enclosing[block.id], block_of, plans
                )
            if (
                isinstance(node.op, Call)
                and isinstance(node.op.plan, str)
                and node.op.plan not in plans
            ):
                yield f"node {node.id!r} calls the missing plan {node.op.plan!r}"


def _nesting_problems(plan: Plan, block_of: dict[str, Block]) -> Iterator[str]:
    owners: dict[str, str] = {}
    names = {block.id for block in plan.blocks}
    if len(names) != len(plan.blocks):
        yield "two blocks share an id"
    if plan.blocks[0].owner is not None:
        yield "the main block has an owner"
    for node in nodes_in(plan):
        if isinstance(node.op, Each):
            if node.op.body in owners or node.op.body not in names:
                yield f"the body of {node.id!r} is missing or used twice"
            owners[node.op.body] = node.id
    for block in plan.blocks[1:]:
        if block.owner is None or owners.get(block.id) != block.owner:
            yield f"block {block.id!r} does not belong to its owner {block.owner!r}"
        elif block_of[block.owner] is block:
            yield f"block {block.id!r} contains itself"


def _enclosing(block: Block, plan: Plan, block_of: dict[str, Block]) -> frozenset[str]:
    """The blocks a Goto from this block may lead to."""
    reachable = {block.id}
    while block.owner is not None and block.owner in block_of:
        block = block_of[block.owner]
        if block.id in reachable or len(reachable) > len(plan.blocks):
            break
        reachable.add(block.id)
    return frozenset(reachable)


def _target_problems(
    node: Node,
    target: Target,
    block: Block,
    enclosing: frozenset[str],
    block_of: dict[str, Block],
    plans: frozenset[str],
) -> Iterator[str]:
    match target:
        case Goto(name):
            if name not in block_of:
                yield f"node {node.id!r} goes to the missing node {name!r}"
            elif block_of[name].id not in enclosing:
                yield f"node {node.id!r} jumps into a loop at {name!r}"
        case Leave(label):
            if block.owner is None or label not in (OK, FAILED):
                yield f"node {node.id!r} leaves a loop it is not in"
        case Restart(plan):
            if plan not in plans:
                yield f"node {node.id!r} restarts the missing plan {plan!r}"
        case Finish() | Abort():
            pass


def _node_problems(node: Node) -> Iterator[str]:
    routed = [label for label, _ in node.routes]
    if sorted(routed) != sorted(labels_of(node)):
        yield f"the routes of {node.id!r} are {routed}, its labels {list(labels_of(node))}"
    if isinstance(node.retry, Retry) and (node.retry.attempts < 1 or node.retry.delay_s < 0):
        yield f"node {node.id!r} retries {node.retry.attempts} times"
    if node.timeout_s is not None and node.timeout_s <= 0:
        yield f"node {node.id!r} has a timeout of {node.timeout_s}"
    match node.op:
        case Ask(outcomes=outcomes):
            if len(set(outcomes)) != len(outcomes) or any(o.startswith("@") for o in outcomes):
                yield f"node {node.id!r} has unusable outcomes"
        case Run(argv):
            if not argv:
                yield f"node {node.id!r} runs nothing"
        case Wait(timeout_s=timeout, poll_ms=poll, min_count=count):
            if timeout <= 0 or poll < 1 or count < 1:
                yield f"node {node.id!r} waits in an impossible way"
        case Gate(timeout_s=limit):
            if limit is not None and limit <= 0:
                yield f"gate {node.id!r} has a timeout of {limit}"
        case Each(limit=limit, rounds=rounds):
            if rounds is not None and limit is None:
                yield f"the rounds of {node.id!r} have no limit"
        case Call(outcomes=outcomes):
            if outcomes and not {"completed", "failed"} <= set(outcomes):
                yield f"node {node.id!r} cannot say how its call ended"
