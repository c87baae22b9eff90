"""Flow analysis: which steps can run, which can end, and what is defined by then.

It works on any plan. Only the ways an author wrote down count: a lost attempt that is tried again
is not a loop, and an abort is not a planned end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heappop, heappush

from orchestrate.diagnostics import Diagnostic, Span
from orchestrate.plan.ends import OTHER
from orchestrate.plan.nodes import (
    APPROVED,
    CONFLICT,
    DENIED,
    FAILED,
    INVALID,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Call,
    Each,
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
    Wait,
    is_conditional,
    nodes_in,
)
from orchestrate.record import mutable_record, record

# Stands for a node that every planned end leads to: there a plan's outputs are read.
AT_END: NodeId = "outputs:"


@record
class Use:
    """A reference in a node; `key` is `var:name`, `ran:node` or `seen:node` (see `_defines`).

    `where` finds its place in the file, which is a search, and few uses are ever reported.
    """

    node: NodeId
    key: str
    shown: str
    where: Callable[[], Span]
    hint: str = ""


def analyse(plan: Plan, uses: Sequence[Use]) -> Iterator[Diagnostic]:
    """Findings about steps that never run, never end, or use what may not or cannot be there."""
    graph = _Graph(plan)
    reachable = graph.reachable()
    covered = set(reachable)
    for node in graph.nodes.values():
        if node.id not in covered:
            # What comes after it, or inside it, will be reached once it is.
            covered |= graph.reachable(node.id, covered)
            yield Diagnostic(
                "W201",
                f"no path leads to step '{node.name}'",
                node.span,
                hint="name it in a transition or a goto, or remove it",
            )
    yield from _endless(graph, reachable)
    yield from _undefined(graph, reachable, uses)


class _Graph:
    """The nodes of all blocks with the edges that the author wrote."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.nodes = {node.id: node for node in nodes_in(plan)}
        self.entries = {block.id: block.entry for block in plan.blocks}

    def edges(self, node: Node) -> Iterator[tuple[Label, Target]]:
        for label, target in node.routes:
            if label in (INVALID, LOST):
                continue
            if label == DENIED and not (isinstance(node.op, Gate) and node.op.is_step):
                continue
            if label == FAILED and node.on_failure in ("stop", "ask"):
                continue
            yield label, target

    def reachable(self, start: NodeId | None = None, known: Container[NodeId] = ()) -> set[NodeId]:
        """The nodes that a start (the plan's, if none is given) leads to, beyond the known ones."""
        seen: set[NodeId] = set()
        waiting = [start or self.plan.blocks[0].entry]
        while waiting:
            name = waiting.pop()
            if name in seen or name in known:
                continue
            seen.add(name)
            node = self.nodes[name]
            waiting += [t.node for _, t in self.edges(node) if isinstance(t, Goto)]
            if isinstance(node.op, Each):
                waiting.append(self.entries[node.op.body])
        return seen

    def circles(self, names: set[NodeId]) -> set[NodeId]:
        """Those of the nodes that are left when the ways into their circles are taken off."""
        left = set(names)
        arrivals = dict.fromkeys(names, 0)
        for name in names:
            for following in self._within(name, left):
                arrivals[following] += 1
        waiting = [name for name in names if not arrivals[name]]
        while waiting:
            name = waiting.pop()
            left.discard(name)
            for following in self._within(name, left):
                arrivals[following] -= 1
                if not arrivals[following]:
                    waiting.append(following)
        return left

    def _within(self, name: NodeId, names: set[NodeId]) -> Iterator[NodeId]:
        for _, target in self.edges(self.nodes[name]):
            if isinstance(target, Goto) and target.node in names:
                yield target.node

    def able_to_end(self) -> set[NodeId]:
        """The nodes from which the plan, or the iteration they are in, can come to an end."""
        before: dict[NodeId, list[NodeId]] = {}
        able: set[NodeId] = set()
        waiting: list[NodeId] = []
        for node in self.nodes.values():
            for _, target in self.edges(node):
                match target:
                    case Goto(name):
                        before.setdefault(name, []).append(node.id)
                    case Finish() | Restart() | Leave():
                        waiting.append(node.id)
                    case Abort():
                        pass
        while waiting:
            name = waiting.pop()
            if name not in able:
                able.add(name)
                waiting += before.get(name, ())
        return able


def _endless(graph: _Graph, reachable: set[NodeId]) -> Iterator[Diagnostic]:
    """Report where a trap begins: the nodes by which one enters a circle that never ends."""
    endless = reachable - graph.able_to_end()
    inside = graph.circles(endless) or endless
    trapped = [name for name in graph.nodes if name in inside]
    entered = {graph.plan.blocks[0].entry} | {
        target.node
        for node in graph.nodes.values()
        if node.id in reachable and node.id not in inside
        for _, target in graph.edges(node)
        if isinstance(target, Goto)
    }
    starts = [name for name in trapped if name in entered] or trapped[:1]
    word = "outcome" if graph.plan.dialect == "machine" else "path"
    for name in starts:
        node = graph.nodes[name]
        yield Diagnostic(
            "W202",
            f"from step '{node.name}' no {word} leads to an end: it can only loop",
            node.span,
            hint="give one of the steps on the circle a way to an exit",
        )
    for node in graph.nodes.values():
        if isinstance(node.op, Wait) and any(
            label == FAILED and target == Goto(node.id) for label, target in node.routes
        ):
            yield Diagnostic(
                "W105",
                f"step '{node.name}' starts to wait again whenever its time is up",
                node.span,
                hint="let on.failure lead to another step or to _end",
            )


@mutable_record
class _Facts:
    """Numbers the keys that are asked for, so that a set of them is one integer."""

    bits: dict[str, int]

    def of(self, keys: Iterator[str]) -> int:
        result = 0
        for key in keys:
            result |= self.bits.get(key, 0)
        return result


def _undefined(graph: _Graph, reachable: set[NodeId], uses: Sequence[Use]) -> Iterator[Diagnostic]:
    keys = list(dict.fromkeys(use.key for use in uses))
    if not keys:
        return
    keys += dict.fromkeys(f"done:{name}" for node in graph.nodes.values() for name in node.after)
    facts = _Facts({key: 1 << position for position, key in enumerate(keys)})
    known = _defined_on_entry(graph, facts, on_all_paths=True)
    reached = {AT_END, *reachable}
    missing = [
        use
        for use in uses
        if use.node in reached and not known.get(use.node, 0) & facts.bits[use.key]
    ]
    possible = _defined_on_entry(graph, facts, on_all_paths=False) if missing else {}
    for use in missing:
        code, message = "W102", f"{use.shown} may be undefined here"
        # A variable of a recipe may be given a first value from outside; a result may not.
        # An output without a value is left out.
        is_result = not use.key.startswith("var:") and use.node != AT_END
        if is_result and not possible.get(use.node, 0) & facts.bits[use.key]:
            code, message = "E125", f"{use.shown} is undefined here: no path runs that step first"
        yield Diagnostic(code, message, use.where(), hint=use.hint)


def _defined_on_entry(graph: _Graph, facts: _Facts, *, on_all_paths: bool) -> dict[NodeId, int]:
    """What is defined when a node starts, on all paths or on some: a fixed point."""
    everything = (1 << len(facts.bits)) - 1
    main = graph.plan.blocks[0].entry
    known: dict[NodeId, int] = {main: 0}
    # In the order they were written: then nearly every node is looked at once, after those before
    # it. Any other order can look at each node once for every node.
    nodes = tuple(graph.nodes.values())
    position = {name: index for index, name in enumerate(graph.nodes)}
    waiting = [position[main]]
    while waiting:
        node = nodes[heappop(waiting)]
        at_start = known[node.id]
        successors: list[tuple[NodeId, int]] = []
        for label, target in node.routes:
            following = _following(label, target)
            if on_all_paths and label == SKIPPED and _cannot_be_skipped(node, facts, at_start):
                continue
            if following is not None:
                kept = at_start
                if label == FAILED and node.part_of is not None:
                    # What was answered has failed its check, and is not a result.
                    kept &= ~facts.of(_of_answer(graph.nodes[node.part_of]))
                successors.append((following, kept | facts.of(_defines(node, label))))
        if isinstance(node.op, Each):
            # An iteration sees what was there before the loop, not what another one left behind.
            successors.append((graph.entries[node.op.body], at_start))
        for name, facts_there in successors:
            if on_all_paths:
                merged = known.get(name, everything) & facts_there
            else:
                merged = known.get(name, 0) | facts_there
            if merged != known.get(name):
                known[name] = merged
                if name != AT_END:
                    heappush(waiting, position[name])
    return known


def _cannot_be_skipped(node: Node, facts: _Facts, at_start: int) -> bool:
    """Has all that it depends on succeeded wherever one comes from, and is there no condition?"""
    needed = facts.of(f"done:{name}" for name in node.after)
    return not is_conditional(node) and at_start & needed == needed


def _of_answer(node: Node) -> Iterator[str]:
    """What is defined by an answer that no check has refused."""
    yield f"done:{node.id}"
    yield from (f"var:{name}" for name in node.variables)


def _following(label: Label, target: Target) -> NodeId | None:
    """Where a label leads with what is defined; a step that gave up owes no outputs."""
    if label in (INVALID, LOST):
        return None
    match target:
        case Goto(name):
            return name
        case Finish(end=end) if end != "exit-failed" and label != OTHER:
            return AT_END
        case _:
            return None


def _defines(node: Node, label: Label) -> Iterator[str]:
    """The keys that are defined once a node has reported a label."""
    yield f"seen:{node.id}"
    if label != SKIPPED:
        yield f"ran:{node.id}"
    if isinstance(node.op, Run) and node.op.exit_code is not None and label in (OK, FAILED):
        yield f"var:{node.op.exit_code}"
    if label in (OK, APPROVED):
        yield f"done:{node.part_of or node.id}"
    if label not in (OK, CONFLICT):
        return
    match node.op:
        case Each(collect=collect):
            # The list may be empty: then there is no last result, but an empty collection.
            if collect is not None:
                yield f"var:{collect}"
        case Ask() | Run() | Call():
            if node.output is not None:
                yield f"var:{node.output}"
        case _:
            pass
