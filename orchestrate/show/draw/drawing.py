"""A program as vertices, edges and frames, ready to be written in any language of drawings.

What happens when an agent fails is the same everywhere and would drown the drawing, so a route of
`@failed`, `@lost` or `@invalid` is drawn only where the author decided it, or where a run took it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from orchestrate.plan.nodes import (
    FAILED,
    INVALID,
    LOST,
    OK,
    Abort,
    Ask,
    Block,
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
    Program,
    Restart,
    Run,
    Target,
    Wait,
    main_plan,
    nodes_in,
)
from orchestrate.plan.trail import Mark, Trail
from orchestrate.record import field, mutable_record, record

Shape = Literal["start", "step", "run", "wait", "gate", "loop", "call", "finish", "abort"]
LineStyle = Literal["solid", "dotted", "thick"]
TIMES = "\N{MULTIPLICATION SIGN}"


@record
class Vertex:
    """A step, a start or an end; `visits` is None when no run is shown."""

    id: str
    text: str
    shape: Shape
    visits: int | None = None
    mark: Mark | None = None


@record
class Edge:
    """A way from one vertex to another; `taken` is None when no run is shown."""

    tail: str
    head: str
    text: str
    line: LineStyle
    taken: int | None = None


@mutable_record
class Group:
    """A frame around vertices: a plan or the body of a loop."""

    id: str
    text: str
    members: list[Vertex | Group] = field(default_factory=list)


@mutable_record
class Drawing:
    """Everything to draw. Ids are ours, so that no name can break the syntax."""

    top: Group
    edges: list[Edge] = field(default_factory=list)


# The first plan that is drawn is the one that the run began with.
_MAIN = "p0"


def look_of(vertex: Vertex) -> str:
    """How a vertex is drawn beside its shape; '' when no run is shown."""
    if vertex.visits is None:
        return ""
    if vertex.mark is not None:
        return {"at work": "working", "waiting": "waiting", "failed": "failed"}[vertex.mark]
    return "visited" if vertex.visits else "unvisited"


def caption_of(vertex: Vertex) -> str:
    """The text of a vertex, with how often it was visited."""
    return f"{vertex.text} {TIMES}{vertex.visits}" if (vertex.visits or 0) > 1 else vertex.text


def vertices_in(group: Group) -> Iterator[Vertex]:
    for member in group.members:
        if isinstance(member, Vertex):
            yield member
        else:
            yield from vertices_in(member)


def draw_program(program: Program, trail: Trail | None = None) -> Drawing:
    """The program as vertices, edges and frames; a frame per plan when there are several."""
    main = main_plan(program)
    plans = [main, *(plan for plan in program.plans if plan is not main)]
    drawing = Drawing(Group("top", ""))
    entries = {plan.id: f"p{number}n0" for number, plan in enumerate(plans)}
    for number, plan in enumerate(plans):
        frame = drawing.top
        if len(plans) > 1:
            frame = Group(f"p{number}", plan.name or plan.id)
            drawing.top.members.append(frame)
        _Artist(f"p{number}", plan, entries, drawing, frame, trail).draw()
    return drawing


class _Artist:
    """Draws one plan; holds the ids given to its nodes and ends."""

    def __init__(
        self,
        prefix: str,
        plan: Plan,
        entries: dict[str, str],
        drawing: Drawing,
        frame: Group,
        trail: Trail | None,
    ) -> None:
        self.prefix = prefix
        self.plan = plan
        self.entries = entries
        self.edges = drawing.edges
        self.frame = frame
        self.blocks = {block.id: block for block in plan.blocks}
        # 0 is the start, which other plans' edges lead to.
        self.ids = {node.id: f"{prefix}n{number}" for number, node in enumerate(nodes_in(plan), 1)}
        self.ends: dict[Target, str] = {}
        self.trail = trail

    def draw(self) -> None:
        start = self.entries[self.plan.id]
        begun = None if self.trail is None else self.trail.starts.get(self.plan.id, 0)
        self.frame.members.append(Vertex(start, "start", "start", begun))
        self.edges.append(Edge(start, self.ids[self.plan.blocks[0].entry], "", "solid", begun))
        self.draw_block(self.plan.blocks[0], self.frame)

    def draw_block(self, block: Block, frame: Group) -> None:
        for node in block.nodes:
            vertex = self.vertex_of(node)
            frame.members.append(vertex)
            self.draw_routes(node, block)
            if isinstance(node.op, Each):
                body = self.blocks[node.op.body]
                inner = Group(f"{vertex.id}body", f"each {node.op.variable}")
                frame.members.append(inner)
                entered = None if self.trail is None else min(self.visits(body.entry), 1)
                self.edges.append(Edge(vertex.id, self.ids[body.entry], "each", "dotted", entered))
                self.draw_block(body, inner)
            elif isinstance(node.op, Call) and isinstance(node.op.plan, str):
                head = self.entries[node.op.plan]
                self.edges.append(Edge(vertex.id, head, "calls", "dotted", vertex.visits))

    def vertex_of(self, node: Node) -> Vertex:
        shape = _shape_of(node)
        if self.trail is None:
            return Vertex(self.ids[node.id], node.name, shape)
        mark = self.trail.marks.get((self.plan.id, node.id))
        return Vertex(self.ids[node.id], node.name, shape, self.visits(node.id), mark)

    def visits(self, node: NodeId) -> int:
        return 0 if self.trail is None else self.trail.visits.get((self.plan.id, node), 0)

    def draw_routes(self, node: Node, block: Block) -> None:
        """One edge per target, with all labels that lead there; `@failed` reads as `failed`."""
        labels: dict[tuple[str, LineStyle], dict[str, int]] = {}
        for label, target, count in self.routes_of(node):
            if count or not _is_policy(node, label, target):
                line: LineStyle = "thick" if isinstance(target, Restart) else "solid"
                if isinstance(target, Leave):
                    line = "dotted"
                named = labels.setdefault((self.head_of(target, block), line), {})
                name = label.lstrip("@")
                named[name] = named.get(name, 0) + count
        for (head, line), names in labels.items():
            counted = names.items()
            text = ", ".join(f"{n} {TIMES}{count}" if count > 1 else n for n, count in counted)
            taken = None if self.trail is None else sum(names.values())
            self.edges.append(Edge(self.ids[node.id], head, text, line, taken))

    def routes_of(self, node: Node) -> Iterator[tuple[Label, Target, int]]:
        """The routes with how often each was taken, and what a person chose instead of them."""
        moves: dict[Target, dict[str, int]] = {}
        if self.trail is not None:
            moves = {
                target: dict(counts)
                for (plan, name, target), counts in self.trail.moves.items()
                if plan == self.plan.id and name == node.id
            }
        for label, target in node.routes:
            yield label, target, moves.get(target, {}).pop(label, 0)
        for target, counts in moves.items():
            for label, count in counts.items():
                yield label, target, count

    def head_of(self, target: Target, block: Block) -> str:
        match target:
            case Goto(name):
                return self.ids[name]
            case Leave():
                assert block.owner is not None
                return self.ids[block.owner]
            case Restart(plan):
                return self.entries[plan]
            case Finish(reason):
                if self.is_failed_end(target):
                    assert self.trail is not None
                    return self.end_of(target, f"failed: {self.trail.failed_at_end}", "abort")
                return self.end_of(target, reason or "end", "finish")
            case Abort(kind, reason):
                return self.end_of(target, reason or kind, "abort")

    def end_of(self, target: Target, text: str, shape: Shape) -> str:
        if target not in self.ends:
            self.ends[target] = f"{self.prefix}e{len(self.ends)}"
            reached = None if self.trail is None else self.arrivals(target)
            self.frame.members.append(Vertex(self.ends[target], text, shape, reached))
        return self.ends[target]

    def is_failed_end(self, target: Target) -> bool:
        """Did the run come here, to its end, and failed although it went on to it?"""
        if self.trail is None or not self.trail.failed_at_end:
            return False
        return self.prefix == _MAIN and self.arrivals(target) > 0

    def arrivals(self, target: Target) -> int:
        assert self.trail is not None
        return sum(
            sum(counts.values())
            for (plan, _, led_to), counts in self.trail.moves.items()
            if plan == self.plan.id and led_to == target
        )


def _shape_of(node: Node) -> Shape:
    match node.op:
        case Ask():
            return "step"
        case Run():
            return "run"
        case Wait():
            return "wait"
        case Gate():
            return "gate"
        case Each():
            return "loop"
        case Call():
            return "call"


def _is_policy(node: Node, label: Label, target: Target) -> bool:
    """Is this what happens everywhere unless the author says otherwise?"""
    if label not in (FAILED, LOST, INVALID):
        return False
    if isinstance(target, Abort):
        return True
    if isinstance(target, Leave):
        return target.label != OK
    return label == LOST and target == Goto(node.id)
