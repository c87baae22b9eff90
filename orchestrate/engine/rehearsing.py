"""The shortest way out of a machine, which a rehearsal takes where nobody says otherwise."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from orchestrate.plan.nodes import Abort, Finish, Goto, Leave, NodeId, Plan, Restart, Target

_OTHER = "other"


@lru_cache(maxsize=64)
def ways_out(plan: Plan) -> dict[NodeId, list[str]]:
    """Per step its outcomes, the one that leads to an end soonest first; `other` is the last.

    A restart is a way on, not out: else a rehearsal would go round for ever.
    """
    nodes = plan.blocks[0].nodes
    distance: dict[NodeId, int] = {}
    waiting: deque[NodeId] = deque()
    for node in nodes:
        if any(_ends(target) and label != _OTHER for label, target in node.routes):
            distance[node.id] = 1
            waiting.append(node.id)
    while waiting:
        reached = waiting.popleft()
        for node in nodes:
            if node.id not in distance and any(t == Goto(reached) for _, t in node.routes):
                distance[node.id] = distance[reached] + 1
                waiting.append(node.id)

    def rank(pair: tuple[str, Target]) -> tuple[bool, int, str]:
        label, target = pair
        return (label == _OTHER, _steps_to_end(target, distance), label)

    return {
        node.id: [
            label for label, _ in sorted((p for p in node.routes if p[0][:1] != "@"), key=rank)
        ]
        for node in nodes
    }


def _ends(target: Target) -> bool:
    return isinstance(target, Finish)


def _steps_to_end(target: Target, distance: dict[NodeId, int]) -> int:
    far = 1_000_000
    match target:
        case Finish():
            return 0
        case Goto(node):
            return distance.get(node, far)
        case Restart():
            return far + 1
        case Abort() | Leave():
            return far + 2
