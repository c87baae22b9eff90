"""Circles of steps that ask an agent, which without a brake would be paid for again and again.

A loop over items ends; a circle of gotos does not. Each step on one that asks an agent, itself or
in its body, or calls another file, is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.plan.nodes import LOST, Ask, Block, Call, Each, Goto, Node, NodeId, Plan
from orchestrate.record import replace

MOST_VISITS = 100


def with_brakes(plan: Plan) -> Plan:
    """The plan whose steps on such circles may be reached `MOST_VISITS` times in a frame."""
    found = {node.id for node in asking_in_circles(plan)}
    if not found:
        return plan

    def brake(node: Node) -> Node:
        return replace(node, most_visits=MOST_VISITS) if node.id in found else node

    blocks = (replace(b, nodes=tuple(brake(node) for node in b.nodes)) for b in plan.blocks)
    return replace(plan, blocks=tuple(blocks))


def asking_in_circles(plan: Plan) -> Iterator[Node]:
    """The steps on circles that ask an agent, in the order written."""
    bodies = {block.owner: block for block in plan.blocks}
    for block in plan.blocks:
        around = _circles(block, bodies)
        yield from (node for node in block.nodes if node.id in around and _asks(node, bodies))


def nodes_in_circles(plan: Plan, block: Block) -> set[NodeId]:
    """The nodes of a block that can be reached from themselves."""
    return _circles(block, {body.owner: body for body in plan.blocks})


def _within(node: Node, bodies: dict[NodeId | None, Block]) -> Iterator[Node]:
    """The step, and those of the loops in it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one.op, Each) and one.id in bodies:
            waiting += bodies[one.id].nodes


def _asks(node: Node, bodies: dict[NodeId | None, Block]) -> bool:
    return any(isinstance(one.op, Ask | Call) for one in _within(node, bodies))


def _circles(block: Block, bodies: dict[NodeId | None, Block]) -> set[NodeId]:
    """The nodes of a block that can be reached from themselves."""
    position = {node.id: number for number, node in enumerate(block.nodes)}
    edges = {
        node.id: [
            target.node
            for one in _within(node, bodies)
            for label, target in one.routes
            if label != LOST and isinstance(target, Goto) and target.node in position
        ]
        for node in block.nodes
    }
    if not any(position[to] <= position[name] for name in edges for to in edges[name]):
        return set()
    return in_circles(edges)


def in_circles(edges: dict[str, list[str]]) -> set[str]:
    """The names that lead back to themselves: Tarjan's components, without recursion."""
    number: dict[NodeId, int] = {}
    lowest: dict[NodeId, int] = {}
    open_nodes: dict[NodeId, None] = {}
    found: set[NodeId] = set()
    for start in edges:
        if start in number:
            continue
        walk: list[tuple[NodeId, int]] = [(start, 0)]
        while walk:
            name, at = walk.pop()
            if not at:
                number[name] = lowest[name] = len(number)
                open_nodes[name] = None
            for index in range(at, len(edges[name])):
                to = edges[name][index]
                if to not in number:
                    walk += [(name, index + 1), (to, 0)]
                    break
                if to in open_nodes:
                    lowest[name] = min(lowest[name], number[to])
            else:
                if lowest[name] == number[name]:
                    found |= _close(name, open_nodes, edges)
                if walk:
                    outer = walk[-1][0]
                    lowest[outer] = min(lowest[outer], lowest[name])
    return found


def _close(
    name: NodeId, open_nodes: dict[NodeId, None], edges: dict[NodeId, list[NodeId]]
) -> set[NodeId]:
    """The nodes of a component that is complete; one alone is a circle only by its own edge."""
    members = {name}
    while (last := open_nodes.popitem()[0]) != name:
        members.add(last)
    return members if len(members) > 1 or name in edges[name] else set()
