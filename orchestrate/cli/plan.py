"""`orchestrate plan`: what a recipe compiles to, as text, data or a drawing."""

from __future__ import annotations

import click

from orchestrate.cli.definition import compiled_program, workspace_of
from orchestrate.cli.options import choose_format, json_option, working_dir_option
from orchestrate.cli.output import answer, answer_json


@click.command(short_help="Show what a recipe compiles to.")
@click.argument("file", metavar="FILE")
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "mermaid", "dot"]),
    help="How to show the plan (default: text).",
)  # fmt: skip
@working_dir_option
@json_option
def plan(file: str, output_format: str | None, working_dir: str | None, as_json: bool) -> int:
    """Show what a recipe compiles to: every step, and where each of its outcomes leads.

    FILE is a path, or the id of a recipe of the workspace or the catalogue.
    """
    shape = choose_format(output_format, as_json)
    program = compiled_program(file, workspace_of(working_dir))
    match shape:
        case "json":
            from orchestrate.plan.render_json import program_json

            answer_json(program_json(program))
        case "mermaid":
            from orchestrate.plan.render_graph import render_mermaid

            answer(render_mermaid(program))
        case "dot":
            from orchestrate.plan.render_graph import render_dot

            answer(render_dot(program))
        case _:
            from orchestrate.plan.render import render_text

            answer(render_text(program))
    return 0
