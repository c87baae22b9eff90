"""Prints a plan, or the path that a run took through it, in the format that was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator

from orchestrate.plan.visible import visible
from orchestrate.show.draw.drawing import TIMES, Drawing, Edge, Group, Vertex, vertices_in
from orchestrate.show.draw.graph import dot_of, mermaid_of
from orchestrate.show.draw.layout import in_reading_order
from orchestrate.show.draw.path_taken import draw_path, index_or_reason, path_json
from orchestrate.show.draw.svg import render_svg
from orchestrate.show.output import answer, answer_bytes, answer_json, note
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Run
from orchestrate.view.history import read_chronicle

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


def print_drawing(drawing: Drawing, shape: str, title: str) -> None:
    match shape:
        case "mermaid":
            answer(mermaid_of(drawing))
        case "dot":
            answer(dot_of(drawing))
        case "svg":
            # As bytes: a document says its encoding, whatever the terminal's is.
            answer_bytes(render_svg(drawing, visible(title)).encode("utf-8", "backslashreplace"))
        case _:
            answer(render_path(drawing))


def print_path(run: Run, shape: str) -> None:
    """The plan of a run, with the path that it took."""
    index, program, why_no_plan = index_or_reason(run)
    chronicle = read_chronicle(run, index, time.time(), is_live=is_held(run.lock_file))
    drawing, remark = draw_path(chronicle, program, index, why_no_plan)
    for remarks in (*chronicle.notes, remark):
        if remarks:
            note(f"orchestrate: {visible(remarks)}\n")
    if shape == "json":
        answer_json(path_json(run.id, program, chronicle.trail, [*chronicle.notes, remark]))
    else:
        print_drawing(drawing, shape, f"the path of run {run.id}")
