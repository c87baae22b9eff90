"""`orchestrate stop`: as Ctrl-C from anywhere; the run can be resumed."""

from __future__ import annotations

import time

import click

from orchestrate.app.ending.end_run import stop_run
from orchestrate.app.reading.open_run import find_stored
from orchestrate.cli.options import end_within_option, json_option, place_options, run_argument
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.view.advice import next_commands
from orchestrate.view.place import Place


@click.command(short_help="Stop a run, so that it can be resumed.")
@run_argument
@end_within_option
@place_options
@json_option
def stop(run: str, wait_s: float, place: Place, as_json: bool) -> int:
    """Stop a run from anywhere, as Ctrl-C does; `orchestrate resume` continues it.

    RUN is its id, the beginning of one, or `latest`. Its programs are ended, and the process that
    worked on it exits with 130. Programs that a killed process left behind are ended, too; if that
    fails, the exit code is 5. A run at which no process works stays as it is (exit code 0).
    """
    _, found, _ = find_stored(run, place, tell_fault=note_once)
    again = place.command("stop", found.id)
    message, view = stop_run(found, again, time.monotonic() + wait_s, note)
    commands = next_commands(view, place)
    if as_json:
        status = view.status
        answer_json({"run_id": found.id, "status": status, "message": message, "next": commands})
    else:
        answer(message + "\n" + "".join(f"  go on:  {command}\n" for command in commands))
    return 0
