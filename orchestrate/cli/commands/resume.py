"""`orchestrate resume`: goes on with a run after anything, at the right point."""

from __future__ import annotations

from typing import Any

import click

from orchestrate.app.given.settings import FLAGS_OF, RunSettings
from orchestrate.cli.later import later
from orchestrate.cli.options import (
    flag_options,
    is_unnamed,
    json_option,
    place_options,
    run_argument,
)
from orchestrate.errors import UsageError
from orchestrate.view.place import Place

_resume_run = later("cli.resuming:resume_run")


@click.command(short_help="Continue a run that was stopped, failed or parked.")
@run_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Go back to the newest valid state of a damaged run; keep the damaged files beside it.",
)
@click.option(
    "--force-restart",
    is_flag=True,
    help="Start over under a new run id, with the flags and context of the first start.",
)
@click.option(
    "--as-started",
    is_flag=True,
    help="Continue with the definition as it was when the run started.",
)
@click.option(
    "--edited",
    is_flag=True,
    help="Continue with the definition as it is now; keep every result that is still good.",
)
@click.option(
    "--redo",
    "--from",
    metavar="STEP",
    multiple=True,
    help="Run this step and what follows it in its sequence again.",
)
@click.option(
    "--accept",
    metavar="STEP",
    multiple=True,
    help="Take the recorded result of this step as still good, whatever has changed.",
)
@flag_options(*FLAGS_OF["resume"])
@place_options
@json_option
def resume(  # noqa: PLR0913, PLR0917 - one a flag
    run: str,
    repair: bool,
    force_restart: bool,
    as_started: bool,
    edited: bool,
    redo: tuple[str, ...],
    accept: tuple[str, ...],
    place: Place,
    as_json: bool,
    **flags: Any,
) -> int:
    """Continue a run that was killed, stopped, parked or failed.

    RUN is its id, the beginning of one, or `latest`. A step that is recorded as done is not done
    again, a program that still runs is adopted, and a failed step is tried again. The run continues
    with its own copy of the definition. If the files have changed since, in a way that matters, it
    says what it would keep and what it would run, and asks; --edited agrees, --as-started keeps to
    the copy. --redo and --accept agree, too, and open a completed run again. Flags hold as given to
    `run` unless they are given again; --context gives values to steps that have not finished.
    """
    if force_restart and as_started:
        raise UsageError(
            "--force-restart and --as-started exclude each other",
            "--force-restart takes the files as they are now",
        )
    return _resume_run(
        None if is_unnamed(click.get_current_context()) else run,
        RunSettings(**flags),
        place,
        as_json=as_json,
        repair=repair,
        as_started=as_started,
        edits=(edited, redo, accept),
        force_restart=force_restart,
    )
