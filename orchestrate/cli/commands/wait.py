"""`orchestrate wait`: ends when a run ends, parks or is left, with the run's own exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.reading.open_run import find_stored
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.cli.params import Duration
from orchestrate.exits import TIME_IS_UP
from orchestrate.show.output import answer_json, note, note_once
from orchestrate.show.standing_text import standing_json, standing_text
from orchestrate.view.follower import looks
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.state.runs import Run


@click.command(short_help="Wait until a run ends.")
@run_argument
@click.option("--timeout", "timeout_s", type=Duration(may_be_zero=True), metavar="DURATION",
              help="Wait no longer than this; then the exit code is 124.")  # fmt: skip
@place_options
@json_option
def wait(
    run: str,
    timeout_s: float | None,
    place: Place,
    as_json: bool,
) -> int:
    """Wait until a run ends or waits for an approval: RUN is its id, its beginning, or `latest`.

    The exit code is that of the run, or 7 if the process that worked on the run is gone before the
    run has ended.
    """
    _, found, _ = find_stored(run, place, tell_fault=note_once)
    return wait_for(found, place, timeout_s=timeout_s, as_json=as_json)


def wait_for(run: Run, place: Place, *, timeout_s: float | None, as_json: bool) -> int:
    """Wait, tell how the run stands then, and give its exit code."""
    if not await_end(run, timeout_s) and summary_of(run).status == "running":
        return _tell_late(run, timeout_s or 0, as_json)
    view = settled_view(run)
    if as_json:
        answer_json(standing_json(view, place))
    else:
        note(standing_text(view, place))
    return view.exit_code


def await_end(run: Run, timeout_s: float | None) -> bool:
    """Wait until no process works on the run; False if that took too long.

    A process whose run is over may still send notifications: the next command waits for those.
    """
    return not all(looks(run, within_s=timeout_s))


def _tell_late(run: Run, timeout_s: float, as_json: bool) -> int:
    if as_json:
        answer_json({"run_id": run.id, "status": "running", "reason": None,
                     "exit_code": TIME_IS_UP, "next": []})  # fmt: skip
    else:
        note(f"run {run.id} has not ended within {timeout_s:g} s; it goes on\n")
    return TIME_IS_UP
