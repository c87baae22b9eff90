"""`orchestrate resume`: goes on with a run after anything, at the right point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.settings import RunSettings
from orchestrate.cli.options import (
    flag_options,
    json_option,
    refuse_events,
    run_argument,
    state_dir_option,
    watching_of,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json, note
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.app.resume import Resumed
    from orchestrate.view.watching import Watching


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
    from orchestrate.app.config import load_config
    from orchestrate.app.open_run import find_stored, header_of
    from orchestrate.app.resume import resume as go_on
    from orchestrate.app.start import start_over
    from orchestrate.cli.default_run import is_unnamed, tell_paused
    from orchestrate.cli.detach import detached
    from orchestrate.cli.reporting import CommandLine

    settings = RunSettings(**flags)
    refuse_events(settings, as_json)
    if force_restart and as_started:
        raise UsageError(
            "--force-restart and --as-started exclude each other",
            "--force-restart takes the files as they are now",
        )
    place = Place(working_dir, state_dir)
    runs, found, workspace = find_stored(run, working_dir, state_dir)
    header_of(found)
    departure = detached(settings, place, as_json)
    if isinstance(departure, int):
        return departure
    config = load_config(workspace)
    watching = watching_of(settings, as_json, config, place, departure)
    reporter = CommandLine(watching, departure)
    if force_restart:
        return start_over(runs, found, workspace, settings, reporter).ending.code
    resumed = go_on(found, workspace, settings, reporter, repair=repair, as_started=as_started)
    if resumed.nothing_left:
        _tell_over(resumed, watching)
        if is_unnamed(click.get_current_context()) and resumed.store.state.status == "completed":
            tell_paused(place)
    return resumed.code


def _tell_over(resumed: Resumed, watching: Watching) -> None:
    from orchestrate.show.progress import summary

    if watching.as_json:
        answer_json(summary(resumed.store) | {"message": resumed.nothing_left})
    else:
        (note if watching.events else answer)(resumed.nothing_left + "\n")
