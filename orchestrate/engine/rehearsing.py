"""The shortest way out of a machine, which a rehearsal takes where nobody says otherwise."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from orchestrate.plan.nodes import Abort, Finish, Goto, Leave, Node, NodeId, Plan, Restart, Target

_OTHER = "other"


@lru_cache(maxsize=64)
def ways_out(plan: Plan) -> dict[NodeId, list[str]]:
    """Per step its outcomes, the one that leads to an end soonest first.

    `other` gives up, so it comes after whatever else leads to an end, but before what leads
    nowhere: a recipe that only goes round or restarts would be rehearsed for ever. A restart is
    a way on, not out.
    """
    nodes = plan.blocks[0].nodes
    proper = _distances(nodes, is_other_a_way=False)
    at_all = _distances(nodes, is_other_a_way=True)

    def rank(pair: tuple[str, Target]) -> tuple[int, int, str]:
        label, target = pair
        if label != _OTHER and _steps_to_end(target, proper) is not None:
            return (0, _steps_to_end(target, proper) or 0, label)
        steps = _steps_to_end(target, at_all)
        return (2, 0, label) if steps is None else (1, steps, label)

    return {
        node.id: [
            label for label, _ in sorted((p for p in node.routes if p[0][:1] != "@"), key=rank)
        ]
        for node in nodes
    }


def _distances(nodes: Sequence[Node], *, is_other_a_way: bool) -> dict[NodeId, int]:
    """How many steps it takes from each step to an end of the recipe, where there is a way."""

    def targets(node: Node) -> list[Target]:
        return [
            target
            for label, target in node.routes
            if label[:1] != "@" and (is_other_a_way or label != _OTHER)
        ]

    distance: dict[NodeId, int] = {}
    waiting: deque[NodeId] = deque()
    for node in nodes:
        if any(isinstance(target, Finish) for target in targets(node)):
            distance[node.id] = 1
            waiting.append(node.id)
    while waiting:
        reached = waiting.popleft()
        for node in nodes:
            if node.id not in distance and Goto(reached) in targets(node):
                distance[node.id] = distance[reached] + 1
                waiting.append(node.id)
    return distance


def _steps_to_end(target: Target, distance: dict[NodeId, int]) -> int | None:
    match target:
        case Finish():
            return 0
        case Goto(node):
            return distance.get(node)
        case Restart() | Abort() | Leave():
            return None
