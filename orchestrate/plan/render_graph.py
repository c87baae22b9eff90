"""A program as a drawing, in the languages of Mermaid and Graphviz.

What happens when an agent fails is the same everywhere and would drown the drawing, so a route of
`@failed`, `@lost` or `@invalid` is drawn only where the author decided it.
"""

from __future__ import annotations

import re
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
    Plan,
    Program,
    Restart,
    Run,
    Target,
    Wait,
    main_plan,
)
from orchestrate.plan.visible import clip, visible
from orchestrate.record import field, mutable_record, record

Shape = Literal["start", "step", "run", "wait", "gate", "loop", "call", "finish", "abort"]
Line = Literal["solid", "dotted", "thick"]

_LONGEST_LABEL = 60


@record
class Vertex:
    id: str
    text: str
    shape: Shape


@record
class Edge:
    tail: str
    head: str
    text: str
    line: Line


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


def render_mermaid(program: Program) -> str:
    drawing = draw_program(program)
    lines = ["flowchart TD", *_mermaid_members(drawing.top, "  ")]
    for edge in drawing.edges:
        arrow = {"solid": "-->", "dotted": "-.->", "thick": "==>"}[edge.line]
        label = f'|"{_mermaid_text(edge.text)}"|' if edge.text else ""
        lines.append(f"  {edge.tail} {arrow}{label} {edge.head}")
    return "\n".join(lines) + "\n"


def render_dot(program: Program) -> str:
    drawing = draw_program(program)
    lines = ["digraph plan {", "  rankdir=TB;", *_dot_members(drawing.top, "  ")]
    for edge in drawing.edges:
        style = {"solid": "", "dotted": ", style=dotted", "thick": ", style=bold"}[edge.line]
        lines.append(f"  {edge.tail} -> {edge.head} [label={_dot_text(edge.text)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


_MERMAID_SHAPES: dict[Shape, tuple[str, str]] = {
    "start": ("((", "))"),
    "step": ("[", "]"),
    "run": ("[/", "/]"),
    "wait": ("[\\", "\\]"),
    "gate": ("{", "}"),
    "loop": ("{{", "}}"),
    "call": ("[[", "]]"),
    "finish": ("([", "])"),
    "abort": (">", "]"),
}

_DOT_SHAPES: dict[Shape, str] = {
    "start": "circle",
    "step": "box",
    "run": "parallelogram",
    "wait": "trapezium",
    "gate": "diamond",
    "loop": "hexagon",
    "call": "component",
    "finish": "doublecircle",
    "abort": "octagon",
}


def _mermaid_members(group: Group, pad: str) -> Iterator[str]:
    for member in group.members:
        if isinstance(member, Vertex):
            opening, closing = _MERMAID_SHAPES[member.shape]
            yield f'{pad}{member.id}{opening}"{_mermaid_text(member.text)}"{closing}'
        else:
            yield f'{pad}subgraph {member.id} ["{_mermaid_text(member.text)}"]'
            yield from _mermaid_members(member, pad + "  ")
            yield f"{pad}end"


def _mermaid_text(text: str) -> str:
    """Any punctuation could mean something to Mermaid, so most of it becomes a character code."""
    shown = clip(visible(text), _LONGEST_LABEL) or " "
    return re.sub(r"[^\w .,:/+=()→…'-]", lambda match: f"#{ord(match.group())};", shown)


def _dot_members(group: Group, pad: str) -> Iterator[str]:
    for member in group.members:
        if isinstance(member, Vertex):
            shape = _DOT_SHAPES[member.shape]
            yield f"{pad}{member.id} [label={_dot_text(member.text)}, shape={shape}];"
        else:
            yield f"{pad}subgraph cluster_{member.id} {{"
            yield f"{pad}  label={_dot_text(member.text)};"
            yield from _dot_members(member, pad + "  ")
            yield f"{pad}}}"


def _dot_text(text: str) -> str:
    shown = clip(visible(text), _LONGEST_LABEL)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def draw_program(program: Program) -> Drawing:
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
        _Artist(f"p{number}", plan, entries, drawing, frame).draw()
    return drawing


class _Artist:
    """Draws one plan; holds the ids given to its nodes and ends."""

    def __init__(
        self, prefix: str, plan: Plan, entries: dict[str, str], drawing: Drawing, frame: Group
    ) -> None:
        self.prefix = prefix
        self.plan = plan
        self.entries = entries
        self.edges = drawing.edges
        self.frame = frame
        self.blocks = {block.id: block for block in plan.blocks}
        # 0 is the start, which other plans' edges lead to.
        nodes = [node for block in plan.blocks for node in block.nodes]
        self.ids = {node.id: f"{prefix}n{number}" for number, node in enumerate(nodes, 1)}
        self.ends: dict[Target, str] = {}

    def draw(self) -> None:
        start = self.entries[self.plan.id]
        self.frame.members.append(Vertex(start, "start", "start"))
        self.edges.append(Edge(start, self.ids[self.plan.blocks[0].entry], "", "solid"))
        self.draw_block(self.plan.blocks[0], self.frame)

    def draw_block(self, block: Block, frame: Group) -> None:
        for node in block.nodes:
            vertex = Vertex(self.ids[node.id], node.name, _shape_of(node))
            frame.members.append(vertex)
            self.draw_routes(node, block)
            if isinstance(node.op, Each):
                body = self.blocks[node.op.body]
                inner = Group(f"{vertex.id}body", f"each {node.op.variable}")
                frame.members.append(inner)
                self.edges.append(Edge(vertex.id, self.ids[body.entry], "each", "dotted"))
                self.draw_block(body, inner)
            elif isinstance(node.op, Call) and isinstance(node.op.plan, str):
                self.edges.append(Edge(vertex.id, self.entries[node.op.plan], "calls", "dotted"))

    def draw_routes(self, node: Node, block: Block) -> None:
        """One edge per target, with all labels that lead there."""
        labels: dict[tuple[str, Line], list[str]] = {}
        for label, target in node.routes:
            if not _is_policy(node, label, target):
                line: Line = "thick" if isinstance(target, Restart) else "solid"
                if isinstance(target, Leave):
                    line = "dotted"
                labels.setdefault((self.head_of(target, block), line), []).append(label.lstrip("@"))
        for (head, line), names in labels.items():
            self.edges.append(Edge(self.ids[node.id], head, ", ".join(names), line))

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
                return self.end_of(target, reason or "end", "finish")
            case Abort(kind, reason):
                return self.end_of(target, reason or kind, "abort")

    def end_of(self, target: Target, text: str, shape: Shape) -> str:
        if target not in self.ends:
            self.ends[target] = f"{self.prefix}e{len(self.ends)}"
            self.frame.members.append(Vertex(self.ends[target], text, shape))
        return self.ends[target]


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
