"""Writes a drawing in the languages of Mermaid and Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrate.plan.nodes import Program
from orchestrate.plan.trail import Trail
from orchestrate.plan.visible import clip, visible
from orchestrate.show.draw.drawing import (
    Drawing,
    Group,
    Shape,
    Vertex,
    caption_of,
    draw_program,
    look_of,
    vertices_in,
)

_LONGEST_LABEL = 60


def render_mermaid(program: Program, trail: Trail | None = None) -> str:
    return mermaid_of(draw_program(program, trail))


def mermaid_of(drawing: Drawing) -> str:
    lines = ["flowchart TD", *_mermaid_members(drawing.top, "  ")]
    for edge in drawing.edges:
        arrow = {"solid": "-->", "dotted": "-.->", "thick": "==>"}[edge.line]
        label = f'|"{_mermaid_text(edge.text)}"|' if edge.text else ""
        lines.append(f"  {edge.tail} {arrow}{label} {edge.head}")
    taken = [str(number) for number, edge in enumerate(drawing.edges) if edge.taken]
    if taken:
        lines.append(f"  linkStyle {','.join(taken)} stroke:#1a7f37,stroke-width:3px")
    lines += _mermaid_classes(list(vertices_in(drawing.top)))
    return "\n".join(lines) + "\n"


def _mermaid_classes(vertices: list[Vertex]) -> Iterator[str]:
    """What was visited, what was not, and where the run stands."""
    members: dict[str, list[str]] = {}
    for vertex in vertices:
        look = look_of(vertex)
        if look:
            members.setdefault(look, []).append(vertex.id)
    for name, style in _MERMAID_LOOKS.items():
        if name in members:
            yield f"  classDef {name} {style}"
            yield f"  class {','.join(members[name])} {name}"


# Colours that can be read on light and on dark ground.
_MERMAID_LOOKS = {
    "visited": "fill:#dafbe1,stroke:#1a7f37,color:#1f2328",
    "working": "fill:#ddf4ff,stroke:#0969da,stroke-width:3px,color:#1f2328",
    "waiting": "fill:#fff8c5,stroke:#9a6700,stroke-width:3px,color:#1f2328",
    "failed": "fill:#ffebe9,stroke:#cf222e,stroke-width:3px,color:#1f2328",
    "unvisited": "fill:#f6f8fa,stroke:#afb8c1,color:#656d76,stroke-dasharray:4 3",
}
_DOT_LOOKS = {
    "visited": 'style=filled, fillcolor="#dafbe1", color="#1a7f37"',
    "working": 'style=filled, fillcolor="#ddf4ff", color="#0969da", penwidth=2',
    "waiting": 'style=filled, fillcolor="#fff8c5", color="#9a6700", penwidth=2',
    "failed": 'style=filled, fillcolor="#ffebe9", color="#cf222e", penwidth=2',
    "unvisited": 'style=dashed, color="#afb8c1", fontcolor="#656d76"',
}


def render_dot(program: Program, trail: Trail | None = None) -> str:
    return dot_of(draw_program(program, trail))


def dot_of(drawing: Drawing) -> str:
    lines = ["digraph plan {", "  rankdir=TB;", *_dot_members(drawing.top, "  ")]
    for edge in drawing.edges:
        style = {"solid": "", "dotted": ", style=dotted", "thick": ", style=bold"}[edge.line]
        if edge.taken:
            style += ', color="#1a7f37", penwidth=2'
        elif edge.taken is not None:
            style += ', color="#afb8c1", fontcolor="#656d76"'
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
            yield f'{pad}{member.id}{opening}"{_mermaid_text(caption_of(member))}"{closing}'
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
            look = look_of(member)
            style = f", {_DOT_LOOKS[look]}" if look else ""
            label = _dot_text(caption_of(member))
            yield f"{pad}{member.id} [label={label}, shape={shape}{style}];"
        else:
            yield f"{pad}subgraph cluster_{member.id} {{"
            yield f"{pad}  label={_dot_text(member.text)};"
            yield from _dot_members(member, pad + "  ")
            yield f"{pad}}}"


def _dot_text(text: str) -> str:
    shown = clip(visible(text), _LONGEST_LABEL)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
