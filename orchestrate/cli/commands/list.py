"""`orchestrate list`: the recipes that can be run by id, with what they are for."""

from __future__ import annotations

import click

from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.later import answer_later
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.show.output import answer, answer_json, terminal_columns
from orchestrate.show.recipes_text import recipe_json, recipes_text

_recipes_of = answer_later("app.definitions.recipes:recipes_of")


@click.command("list", short_help="List the recipes of the workspace and the catalogue.")
@working_dir_option
@json_option
def list_recipes(working_dir: str | None, as_json: bool) -> int:
    """List the recipes of the workspace and of the built-in catalogue.

    Each can be run by its id: its path below `workflows/` or `.orchestrate/recipes/`, without the
    extension. Files that only hold parts for others to include are left out.
    """
    recipes = list(_recipes_of(workspace_of(working_dir)))
    if as_json:
        answer_json({"recipes": [recipe_json(one) for one in recipes]})
    else:
        answer(recipes_text(recipes, terminal_columns()))
    return 0
