"""`orchestrate run-step`: carries out a single step of a workflow, as a run of its own."""

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


@click.command("run-step", short_help="Run a single step of a workflow.")
@click.argument("step", metavar="STEP")
@click.option("--workflow", "file", metavar="FILE|ID", required=True,
              help="The workflow that has the step.")  # fmt: skip
@click.option("--from", "from_run", metavar="RUN",
              help="Use the results that other steps had in this run.")  # fmt: skip
@flag_options("plan", "context", "agents", "output")
@state_dir_option
@working_dir_option
@json_option
def run_step(
    step: str,
    file: str,
    from_run: str | None,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a single step, given by its name, as a run of its own.

    A loop runs with all its items. A step that refers to the results of others is refused, unless
    --from names a run that has them. The exit code is that of `run`.
    """
    from orchestrate.cli.starting import run_one_step

    place = Place(working_dir, state_dir)
    return run_one_step(file, step, RunSettings(**flags), place, from_run, as_json=as_json)
