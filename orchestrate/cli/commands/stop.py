"""`orchestrate stop`: as Ctrl-C from anywhere; the run can be gone on with."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import click

from orchestrate.app.kept_programs import are_programs_left, do_programs_run
from orchestrate.cli.options import (
    end_within_option,
    json_option,
    state_dir_option,
    working_dir_option,
)
from orchestrate.exits import stopped_by
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.view.advice import next_commands
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Run
    from orchestrate.view.place import Place


@click.command(short_help="Stop a run, so that it can be resumed.")
@click.argument("run", metavar="RUN")
@end_within_option
@state_dir_option
@working_dir_option
@json_option
def stop(
    run: str, wait_s: float, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """Stop a run as Ctrl-C does, from anywhere: RUN is its id, the beginning of one, or `latest`.

    Its programs are ended, and `orchestrate resume` goes on with it; the process that worked on it
    exits with 130. Programs that a killed process left behind are ended, too; if they cannot be,
    that is said, and the exit code is 5. A run that nobody works on stays as it is (exit code 0).
    """
    from orchestrate.app.open_run import find_stored

    _, found, _ = find_stored(run, working_dir, state_dir, tell_fault=note_once)
    place = Place(working_dir, state_dir)
    message, status, commands = _stop(found, place, time.monotonic() + wait_s)
    if as_json:
        answer_json({"run_id": found.id, "status": status, "message": message, "next": commands})
    else:
        answer(message + "\n" + "".join(f"  go on:  {command}\n" for command in commands))
    return 0


def _stop(run: Run, place: Place, give_up: float) -> tuple[str, str, list[str]]:
    """What was done, how the run stands now, and how to go on with it."""
    from orchestrate.app.claim import AtWorkError, claim_briefly
    from orchestrate.app.give_up import index_if_kept, record_end
    from orchestrate.app.reach_owner import ask_to_end, await_end, end_programs, still_running
    from orchestrate.engine.stop import ASKED_TO_STOP

    again = place.command("stop", run.id)
    interrupted = stopped_by(signal.SIGINT)
    told: set[int] = set()
    lock: Lock | None = None
    while lock is None:
        try:
            lock = claim_briefly(run, "stop")
        except AtWorkError as error:
            if error.owner.pid not in told:
                told.add(error.owner.pid)
                ask_to_end(run, error.owner, ASKED_TO_STOP, "stop", note)
            await_end(run, error.owner, give_up, note)
    is_open = was_left = False
    try:
        view = run_view(run)
        is_open = not told and view.state.status == "running"
        was_left = is_open or (not told and do_programs_run(view))
        if was_left:
            end_programs(run, interrupted.reason, is_interrupted=True, give_up=give_up, again=again)
    except BaseException:
        lock.release()
        raise
    if is_open:
        record_end(run, lock, index_if_kept(run), interrupted, note)
    lock.release()
    view = run_view(run)
    if are_programs_left(view):
        raise still_running(run, again)
    message = _words(view.status, was_at_work=bool(told) or was_left)
    return f"run {run.id} {message}", view.status, next_commands(view, place)


def _words(status: str, *, was_at_work: bool) -> str:
    if not was_at_work:
        return f"is not running: it is {status}; nothing was stopped"
    is_over = status not in ("paused", "interrupted")
    return "had ended before it was stopped" if is_over else "is stopped"
