"""`orchestrate run`: starts a run of a recipe, or shows what would run."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.given.settings import FLAGS_OF, RunSettings
from orchestrate.cli.later import later
from orchestrate.cli.options import flag_options, json_option, place_options
from orchestrate.view.place import Place

_run_recipe = later("cli.starting:run_recipe")
# Loads no engine.
_show_dry_run = later("cli.dry_running:show_dry_run")


@click.command(short_help="Run a recipe.")
@click.argument("file", metavar="FILE|ID")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@flag_options(*FLAGS_OF["run"])
@place_options
@json_option
def run(
    file: str,
    text: str | None,
    dry_run: bool,
    place: Place,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a recipe, given as a file or by its id; TEXT is the first input that it declares.

    Every step is recorded under .orchestrate/runs/RUN_ID as it happens, and `orchestrate resume`
    continues from there. With --dry-run nothing is started or written; the configuration and the
    flags are applied as in a run. A flag that does not apply to the file's dialect is an error.
    An input that is not given is asked for at a terminal; `orchestrate describe FILE` lists them.
    """
    settings = RunSettings(**flags)
    carry_out = _show_dry_run if dry_run else _run_recipe
    return carry_out(file, settings, place, text=text, as_json=as_json)
