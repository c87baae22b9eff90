"""The way that a rehearsal takes where its script says nothing: through as many steps as it can.

No outcome of a step is taken twice, and of the ways that end well the one with the most steps is
taken. Commands pass and gates let pass, so that only agents choose.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from orchestrate.plan.ends import OTHER
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    OK,
    Abort,
    Ask,
    Call,
    Finish,
    Gate,
    Goto,
    Label,
    Leave,
    Node,
    NodeId,
    Plan,
    Restart,
    Run,
    Target,
    target_of,
)
from orchestrate.record import record

_T = TypeVar("_T")
# A gate at which a rehearsal stops, as a run without a person would.
WAITS: Label = "@waits"
# Of the labels that no agent chooses: a check that holds, a gate that lets pass.
_GOOD = (OK, APPROVED)
# How many steps are tried in search of the longest way; a recipe of thirty needs a hundred.
_PATIENCE = 5000


@record
class RehearsedReport:
    """What a step reports in a rehearsal, and the text that it gives; None: as usual."""

    label: Label | None = None
    text: str | None = None


@record
class Rehearsal:
    """How a run is gone through without agents, and without commands unless `runs_commands`.

    `choose` says what a step does at a visit; `variant` which of the values that conditions tell
    apart are answered.
    """

    runs_commands: bool = False
    choose: Callable[[Plan, Node, int], RehearsedReport] = lambda _plan, _node, _visit: (
        RehearsedReport()
    )
    variant: int = 0


def choice_of(variant: int, what: str, among: Sequence[_T]) -> _T:
    """The first, which leads on; in another variant another one, the same each time."""
    if variant < len(among):
        return among[variant]
    import random

    return random.Random(f"{variant}/{what}").choice(among)


def label_of(outcome: str, node: Node) -> Label | None:
    """The label that an author's word for an outcome means at a step; None: it has no such."""
    spoken = {"approved": APPROVED, "denied": DENIED, "passed": OK, "failed": FAILED}
    if isinstance(node.op, Gate) and outcome == "waits":
        return WAITS
    labels = dict(node.routes)
    known = spoken.get(outcome, outcome)
    return outcome if outcome in labels else known if known in labels else None


def word_of(label: Label) -> str:
    """The author's word for a label."""
    return {OK: "passed"}.get(label, label.removeprefix("@"))


def outcome_of(plan: Plan, node: Node, visit: int, *, is_restarted: bool) -> Label:
    """The outcome that an agent's step has. After a restart all was seen, so the end is near."""
    way = {} if is_restarted else furthest_way(plan)
    return way.get((node.id, visit)) or ways_out(plan)[node.id][0]


def passing(node: Node) -> Label:
    """What a step reports whose work is taken for done."""
    labels = dict(node.routes)
    match node.op:
        case Run(exits=exits) if exits:
            return dict(exits).get("0", dict(exits)["*"])
        case Gate():
            return APPROVED
        case Call(outcomes=outcomes) if outcomes:
            return "completed"
        case _:
            return OK if OK in labels else next(iter(labels))


# The furthest way.


@lru_cache(maxsize=64)
def furthest_way(plan: Plan) -> dict[tuple[NodeId, int], Label]:
    """By step and visit, the outcomes that lead through the most steps to a good end."""
    search = _Search({node.id: node for node in plan.blocks[0].nodes}, plan)
    search.visit(plan.blocks[0].entry, (), frozenset())
    way: dict[tuple[NodeId, int], Label] = {}
    visits: dict[NodeId, int] = {}
    for node_id, label in search.best:
        visits[node_id] = visits.get(node_id, 0) + 1
        way[node_id, visits[node_id]] = label
    return way


_Way = tuple[tuple[NodeId, Label], ...]


class _Search:
    """Tries ways until one goes through every step that can be reached, or patience ends."""

    def __init__(self, nodes: dict[NodeId, Node], plan: Plan) -> None:
        self.nodes = nodes
        self.most_visits = plan.limits.max_visits or 3
        self.most_steps = min(plan.limits.max_steps or 200, 200)
        self.best: _Way = ()
        self.score: tuple[int, ...] = (-1,)
        self.tried = 0
        self.reachable = len(_reachable(nodes, plan.blocks[0].entry))

    def visit(self, node_id: NodeId, way: _Way, seen: frozenset[NodeId]) -> bool:
        """Go on from a step; True when nothing better can be found."""
        self.tried += 1
        if self.tried > _PATIENCE:
            return True
        if len(way) >= self.most_steps:
            return False
        if sum(step == node_id for step, _ in way) >= self.most_visits:
            return False
        seen |= {node_id}
        node = self.nodes[node_id]

        def rank(label: Label) -> tuple[bool, bool]:
            target = target_of(node, label)
            return (not isinstance(target, Goto), isinstance(target, Goto) and target.node in seen)

        for label in sorted(_chosen(node), key=rank):
            if (node_id, label) in way:
                continue
            further = (*way, (node_id, label))
            match target_of(node, label):
                case Goto(following) if following in self.nodes:
                    if self.visit(following, further, seen):
                        return True
                case target:
                    if self._ends(target, further, len(seen)):
                        return True
        return False

    def _ends(self, target: Target, way: _Way, steps: int) -> bool:
        good = isinstance(target, Restart) or (
            isinstance(target, Finish) and target.end != "exit-failed"
        )
        score = (int(good), steps, int(isinstance(target, Finish)), -len(way))
        if score > self.score:
            self.best, self.score = way, score
        return good and steps == self.reachable


def _chosen(node: Node) -> list[Label]:
    """The labels that a step may report on the way: an agent's outcomes but giving up."""
    if isinstance(node.op, Ask) and node.op.outcomes:
        return [label for label in node.op.outcomes if label != OTHER]
    return [passing(node)]


def _reachable(nodes: dict[NodeId, Node], entry: NodeId) -> set[NodeId]:
    found, waiting = {entry}, [entry]
    while waiting:
        for target in _targets(nodes[waiting.pop()]):
            if isinstance(target, Goto) and target.node in nodes and target.node not in found:
                found.add(target.node)
                waiting.append(target.node)
    return found


def _targets(node: Node) -> Iterator[Target]:
    return (target_of(node, label) for label in _chosen(node))


# The shortest way out.


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

    def rank(pair: tuple[str, Target]) -> tuple[int, int]:
        label, target = pair
        if label != OTHER and _steps_to_end(target, proper) is not None:
            return (0, _steps_to_end(target, proper) or 0)
        steps = _steps_to_end(target, at_all)
        return (2, 0) if steps is None else (1, steps)

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
            if (label[:1] != "@" or label in _GOOD) and (is_other_a_way or label != OTHER)
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
