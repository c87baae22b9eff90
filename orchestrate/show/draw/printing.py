"""Prints a plan, or the path that a run took through it, in the format that was asked for."""

from __future__ import annotations

import time

from orchestrate.plan.visible import visible
from orchestrate.show.draw.drawing import Drawing
from orchestrate.show.draw.graph import dot_of, mermaid_of
from orchestrate.show.draw.path import render_path
from orchestrate.show.draw.path_taken import draw_path, index_or_reason, path_json
from orchestrate.show.draw.svg import render_svg
from orchestrate.show.output import answer, answer_bytes, answer_json, note
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Run
from orchestrate.view.history import read_chronicle


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
