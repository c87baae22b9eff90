"""`orchestrate plan`: what a recipe compiles to, as text, data or a drawing; also of a run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from orchestrate.app.definition import compiled
from orchestrate.app.open_run import find_stored
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.later import later
from orchestrate.cli.options import (
    choose_format,
    json_option,
    state_dir_option,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.to_json import program_json
from orchestrate.plan.visible import visible
from orchestrate.show.draw.drawing import draw_program
from orchestrate.show.draw.graph import dot_of, mermaid_of
from orchestrate.show.draw.path import render_path
from orchestrate.show.draw.path_taken import draw_path, index_or_reason, path_json
from orchestrate.show.draw.svg import render_svg
from orchestrate.show.findings import draw
from orchestrate.show.output import answer, answer_bytes, answer_json, note, note_once, wants_colour
from orchestrate.show.plan_text import render_text
from orchestrate.state.locks import is_held
from orchestrate.view.history import read_chronicle

if TYPE_CHECKING:
    from orchestrate.show.draw.drawing import Drawing


@click.command(short_help="Show what a recipe compiles to, or the path of a run.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--run", "run_text", metavar="RUN",
              help="The plan of this run, with the path it took.")  # fmt: skip
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "mermaid", "dot", "svg"]),
    help="How to show the plan (default: text).",
)  # fmt: skip
@click.option("--estimate", "is_estimate", is_flag=True,
              help="Show what a run may take: calls at worst, costs of earlier runs.")  # fmt: skip
@state_dir_option
@working_dir_option
@json_option
def plan(
    file: str | None,
    run_text: str | None,
    output_format: str | None,
    is_estimate: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Show what a recipe compiles to: every step, and where each of its outcomes leads.

    FILE is a path, or the id of a recipe of the workspace or the catalogue. This is the file alone;
    `run FILE --dry-run` adds the configuration and the flags of a run.

    With --run, show the plan of a run with the path it took: steps visited and how often, routes
    taken, and where the run is or failed.
    """
    shape = choose_format(output_format, as_json)
    if (file is None) == (run_text is None):
        raise UsageError("give either FILE or --run RUN", "e.g. orchestrate plan --run latest")
    if is_estimate:
        return _show_estimate(file, shape, working_dir)
    if run_text is not None:
        return _show_run(run_text, shape, working_dir, state_dir)
    assert file is not None
    compilation, program = compiled(file, workspace_of(working_dir))
    note(draw(compilation.diagnostics, compilation.dropped, colour=wants_colour(sys.stderr)))
    match shape:
        case "json":
            answer_json(program_json(program))
        case "text":
            answer(render_text(program))
        case _:
            main = main_plan(program)
            _draw(draw_program(program), shape, main.title or main.name or main.id)
    return 0


_show_estimate = later("estimating:show_estimate")


def _draw(drawing: Drawing, shape: str, title: str) -> None:
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


def _show_run(text: str, shape: str, working_dir: str | None, state_dir: str | None) -> int:
    _, found, _ = find_stored(text, working_dir, state_dir, tell_fault=note_once)
    index, program, why_no_plan = index_or_reason(found)
    chronicle = read_chronicle(found, index, time.time(), is_live=is_held(found.lock_file))
    drawing, remark = draw_path(chronicle, program, index, why_no_plan)
    for remarks in (*chronicle.notes, remark):
        if remarks:
            note(f"orchestrate: {visible(remarks)}\n")
    if shape == "json":
        answer_json(path_json(found.id, program, chronicle.trail, [*chronicle.notes, remark]))
    else:
        _draw(drawing, shape, f"the path of run {found.id}")
    return 0
