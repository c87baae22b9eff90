"""`orchestrate plan`: what a recipe compiles to, as text, data or a drawing; also of a run."""

from __future__ import annotations

import sys

import click

from orchestrate.app.definitions.find import compiled
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.later import later
from orchestrate.cli.options import choose_format, json_option, place_options
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.to_json import program_json
from orchestrate.show.draw.drawing import draw_program
from orchestrate.show.draw.printing import print_drawing, print_path
from orchestrate.show.findings import draw
from orchestrate.show.output import answer, answer_json, note, note_once, wants_colour
from orchestrate.show.plan_text import render_text
from orchestrate.view.place import Place


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
@place_options
@json_option
def plan(
    file: str | None,
    run_text: str | None,
    output_format: str | None,
    is_estimate: bool,
    place: Place,
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
        return _show_estimate(file, shape, place.working_dir)
    if run_text is not None:
        print_path(find_stored(run_text, place, tell_fault=note_once)[1], shape)
        return 0
    assert file is not None
    compilation, program = compiled(file, workspace_of(place.working_dir))
    note(draw(compilation.diagnostics, compilation.dropped, colour=wants_colour(sys.stderr)))
    match shape:
        case "json":
            answer_json(program_json(program))
        case "text":
            answer(render_text(program))
        case _:
            main = main_plan(program)
            print_drawing(draw_program(program), shape, main.title or main.name or main.id)
    return 0


_show_estimate = later("cli.estimating:show_estimate")
