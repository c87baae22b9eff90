"""`orchestrate cancel`: ends a run for good, whatever its state."""

from __future__ import annotations

import time

import click

from orchestrate.app.ending.end_run import cancel_run
from orchestrate.app.reading.open_run import find_stored
from orchestrate.cli.options import (
    end_within_option,
    json_option,
    named_run_argument,
    place_options,
)
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.view.place import Place


@click.command(short_help="End a run for good.")
@named_run_argument
@end_within_option
@place_options
@json_option
def cancel(run: str, wait_s: float, place: Place, as_json: bool) -> int:
    """End a run for good: RUN is its id, the beginning of one, or `latest`.

    Its programs are ended, and it cannot be resumed; `orchestrate stop` ends them so that it can. A
    run that has ended stays as it is.
    """
    _, found, _ = find_stored(run, place, tell_fault=note_once)
    again = place.command("cancel", found.id)
    message, status = cancel_run(found, again, time.monotonic() + wait_s, note)
    if as_json:
        answer_json({"run_id": found.id, "status": status, "message": message})
    else:
        answer(message + "\n")
    return 0
