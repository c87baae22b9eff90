"""`orchestrate resume`: goes on with a run after anything, at the right point."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.settings import RunSettings
from orchestrate.cli.default_run import is_unnamed, tell_paused
from orchestrate.cli.options import (
    flag_options,
    json_option,
    run_argument,
    state_dir_option,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.view.place import Place


@click.command(short_help="Go on with a run that was stopped, failed or parked.")
@run_argument
@click.option("--repair", is_flag=True, help="Go back to the newest valid state of a damaged run.")
@click.option(
    "--force-restart",
    is_flag=True,
    help="Start over under a new run id, with the flags and context of the first start.",
)
@click.option(
    "--as-started",
    is_flag=True,
    help="Go on with the definition as it was when the run started, whatever its files say now.",
)
@flag_options("plan", "context", "agents", "concurrency", "detach", "output")
@state_dir_option
@working_dir_option
@json_option
def resume(
    run: str,
    repair: bool,
    force_restart: bool,
    as_started: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Go on with a run: RUN is its id, the beginning of one, or `latest`.

    A step that is recorded as done is not done again; an agent that still runs is adopted; a step
    that failed is tried again. A run goes on with the definition that it keeps a copy of; if the
    files have changed since, in more than comments or order, it is refused unless --as-started
    says that the copy counts. Flags hold as they were given to `run` unless they are given again;
    --context gives values to what has not finished.
    """
    from orchestrate.cli.starting import resume_run

    if force_restart and as_started:
        raise UsageError(
            "--force-restart and --as-started exclude each other",
            "--force-restart takes the files as they are now",
        )
    code, is_completed = resume_run(
        run,
        RunSettings(**flags),
        Place(working_dir, state_dir),
        as_json=as_json,
        repair=repair,
        as_started=as_started,
        force_restart=force_restart,
    )
    if is_completed and is_unnamed(click.get_current_context()):
        tell_paused(Place(working_dir, state_dir))
    return code
