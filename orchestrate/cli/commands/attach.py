"""`orchestrate attach`: shows a run that another process works on, as `run` itself would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from orchestrate.app.config.lenient import config_for_looking
from orchestrate.app.ending.claim import orchestrator_of
from orchestrate.app.ending.stopping import Stop, stoppable
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.cli.commands.wait import wait_for
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.errors import OrchestrateError
from orchestrate.exits import of_signal
from orchestrate.plan.visible import visible
from orchestrate.show.follow_events import follow_events
from orchestrate.show.last_words import last_words
from orchestrate.show.live.wanted import is_live
from orchestrate.show.output import answer, note, note_once
from orchestrate.show.progress import Progress
from orchestrate.show.ticking import running_lines
from orchestrate.view.display_options import DisplayOptions
from orchestrate.view.follower import Follower, looks
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

_FOOT = "Ctrl-C stops watching; the run goes on"


@click.command(short_help="Watch a run that another process works on.")
@run_argument
@click.option("--live/--no-live", "live", default=None,
              help="Show the run live, or as lines.")  # fmt: skip
@place_options
@json_option
def attach(
    run: str,
    live: bool | None,
    place: Place,
    as_json: bool,
) -> int:
    """Watch a run that another process works on: RUN is its id, the beginning of one, or `latest`.

    Ends with the run, with its last message and its exit code. Ctrl-C stops watching and leaves the
    run alone. With --json nothing is shown, and the answer is that of `wait`.
    """
    _, found, workspace = find_stored(run, place, tell_fault=note_once)
    if as_json:
        return wait_for(found, place, timeout_s=None, as_json=True)
    return watch_run(found, workspace, place, live)


def watch_run(run: Run, workspace: Workspace, place: Place, live: bool | None) -> int:
    """Show the run until it ends, is left by its process, or Ctrl-C."""
    if summary_of(run).status == "running":
        owner = orchestrator_of(run)
        who = f" in {visible(owner.describe())}" if owner is not None else ""
        note(f"run {run.id} goes on{who}\n")
        with stoppable() as stop:
            ending = _follow(run, workspace, stop, live, place)
            if ending is not None:
                return ending
            if stop.signal is not None:
                note(f"detached; run {run.id} goes on\n")
                note(f"  watch:  {place.command('attach', run.id)}\n")
                note(f"  stop:   {place.command('cancel', run.id)}\n")
                return of_signal(stop.signal)
    return wait_for(run, place, timeout_s=None, as_json=False)


def _follow(
    run: Run, workspace: Workspace, stop: Stop, live: bool | None, place: Place
) -> int | None:
    """The exit code of a run that has ended; None if we were stopped, or its process is gone."""
    configured = config_for_looking(workspace, note_once).get("live")
    display = DisplayOptions(live=is_live(DisplayOptions(), live, configured))
    try:
        follower = Follower(run)
    except OrchestrateError as error:
        note(f"orchestrate: shown without its plan: {visible(error.message)}\n")
        follow_events(run, stop.rest, lambda: stop.is_requested)
        return None
    progress = Progress(follower, display, transcripts_of(run, workspace), _FOOT)
    if not display.live:
        for line in running_lines(follower.state, progress.label, time.time()):
            note(line + "\n")
    try:
        # Until its process is gone, not only until the run has ended: what is advised then works.
        for _ in looks(run, stop.rest):
            follower.catch_up(progress.hear)
            if stop.is_requested:
                break
    finally:
        progress.close()
    ending = follower.state.ending
    if ending is None or follower.state.status == "running":
        return None
    if follower.state.dialect == "machine":
        answer(f"Exit: {visible(ending.reason)}\n")
    note(last_words(follower, ending, place))
    return ending.code
