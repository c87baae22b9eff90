"""`orchestrate run-step`: carries out a single step of a workflow, as a run of its own."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.given.settings import RunSettings
from orchestrate.cli.later import later
from orchestrate.cli.options import flag_options, json_option, place_options
from orchestrate.errors import UsageError
from orchestrate.view.place import Place

_run_one_step = later("cli.stepping:run_one_step")


@click.command("run-step", short_help="Run a single step of a workflow.")
@click.argument("step", metavar="STEP")
@click.option("--workflow", "file", metavar="FILE|ID",
              help="The recipe that has the step: a path or an id.")  # fmt: skip
@click.option("--run", "scratch_of", metavar="RUN",
              help="Try the step, as its file is now, against the values of this run.")  # fmt: skip
@click.option("--from", "from_run", metavar="RUN",
              help="Use the results and variables of this run.")  # fmt: skip
@flag_options("plan", "context", "agents", "output")
@place_options
@json_option
def run_step(
    step: str,
    file: str | None,
    scratch_of: str | None,
    from_run: str | None,
    place: Place,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a single step, given by its name, as a run of its own.

    A loop runs with all its items. A step that refers to the results of others is refused unless
    --from names a run that has them. With --run a step of that run is tried, as its file is now,
    against the values that the run has: a scratch run that never becomes `latest`; the run itself
    stays as it is, and so do your files. In a git repository the step works in a worktree with the
    files as they were before it and what you have changed since the run; an unchanged worktree is
    removed. The exit code is that of `run`.
    """
    settings = RunSettings(**flags)
    if (file is None) == (scratch_of is None) or (scratch_of is not None and from_run is not None):
        raise UsageError(
            "say where the step is from: --workflow FILE, or --run RUN",
            "--workflow FILE --from RUN takes the values of a run into another file",
        )
    return _run_one_step(
        file, step, settings, place, from_run, scratch_of=scratch_of, as_json=as_json
    )
