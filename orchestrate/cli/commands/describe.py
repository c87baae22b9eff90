"""`orchestrate describe`: what a recipe does, what it takes and what it gives."""

from __future__ import annotations

import click

from orchestrate.app.definitions.find import compiled
from orchestrate.app.given.scopes import starting_values
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.plan.nodes import main_plan
from orchestrate.show.describe_text import described_json, described_lines
from orchestrate.show.output import answer, answer_json


@click.command(short_help="Say what a recipe does, what it takes and gives.")
@click.argument("file", metavar="FILE|ID")
@working_dir_option
@json_option
def describe(file: str, working_dir: str | None, as_json: bool) -> int:
    """Say what a recipe does, which inputs it takes, what it gives and how it is run.

    Starts nothing and writes nothing. `orchestrate plan FILE` shows every step.
    """
    plan = main_plan(compiled(file, workspace_of(working_dir))[1])
    if as_json:
        answer_json(described_json(plan, starting_values(plan)))
    else:
        answer("".join(f"{line}\n" for line in described_lines(file, plan)))
    return 0
