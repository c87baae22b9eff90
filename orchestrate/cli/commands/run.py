"""`orchestrate run`: starts a run of a recipe, or shows what would run."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.settings import RunSettings
from orchestrate.cli.options import (
    flag_options,
    json_option,
    state_dir_option,
    working_dir_option,
)
from orchestrate.view.place import Place


@click.command(short_help="Run a recipe.")
@click.argument("file", metavar="FILE|ID")
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@flag_options("plan", "context", "queue", "agents", "concurrency", "detach", "output")
@state_dir_option
@working_dir_option
@json_option
def run(
    file: str,
    dry_run: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a recipe, given as a file or by its id.

    Every step is recorded under .orchestrate/runs/RUN_ID as it happens; `orchestrate resume`
    goes on from there after anything. With --dry-run nothing is started or written; the
    configuration and the flags are applied as in a run. A flag that has no meaning for the file's
    dialect is an error.
    """
    from orchestrate.cli.starting import run_recipe

    place = Place(working_dir, state_dir)
    return run_recipe(file, RunSettings(**flags), place, dry_run=dry_run, as_json=as_json)
