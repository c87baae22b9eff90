"""`orchestrate list`: the recipes that can be run by id, with what they are for."""

from __future__ import annotations

import click

from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, working_dir_option

_show_recipes = later("listing:show_recipes")


@click.command("list", short_help="List the recipes of the workspace and the catalogue.")
@working_dir_option
@json_option
def list_recipes(working_dir: str | None, as_json: bool) -> int:
    """List the recipes of the workspace and of the built-in catalogue.

    Each can be run by its id: its path below `workflows/` or `.orchestrate/recipes/`, without the
    extension. Files that only hold parts for others to include are left out.
    """
    return _show_recipes(working_dir, as_json=as_json)
