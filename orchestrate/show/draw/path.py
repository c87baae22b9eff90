"""Writes a drawing of a run as lines: each step with its visits, each route with its count."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.plan.visible import visible
from orchestrate.show.draw.drawing import TIMES, Drawing, Edge, Group, Vertex, vertices_in
from orchestrate.show.draw.layout import in_reading_order

_ENDS = ("finish", "abort")


def render_path(drawing: Drawing) -> str:
    """`*` was visited, `!` failed, `>` is where the run stands; `=>` was taken, `->` was not."""
    names = {vertex.id: visible(vertex.text) for vertex in vertices_in(drawing.top)}
    edges: dict[str, list[Edge]] = {}
    for edge in drawing.edges:
        edges.setdefault(edge.tail, []).append(edge)
    lines = list(_lines(in_reading_order(drawing).top, names, edges, ""))
    return "".join(f"{line}\n" for line in lines)


def _lines(
    group: Group, names: dict[str, str], edges: dict[str, list[Edge]], pad: str
) -> Iterator[str]:
    for member in group.members:
        if isinstance(member, Group):
            yield f"{pad}  {visible(member.text)}"
            yield from _lines(member, names, edges, pad + "    ")
        elif member.shape not in _ENDS:
            yield f"{pad}{_mark(member)} {names[member.id]}{_stands(member)}"
            for edge in edges.get(member.id, ()):
                arrow = "=>" if edge.taken else "->"
                label = f"{visible(edge.text)} " if edge.text else ""
                yield f"{pad}      {label}{arrow} {names[edge.head]}"


def _mark(vertex: Vertex) -> str:
    if vertex.mark is not None:
        return "!" if vertex.mark == "failed" else ">"
    return "*" if vertex.visits else " "


def _stands(vertex: Vertex) -> str:
    times = f" {TIMES}{vertex.visits}" if (vertex.visits or 0) > 1 else ""
    return times + (f"  ({vertex.mark})" if vertex.mark is not None else "")
