"""`orchestrate cancel`: ends a run for good, whoever works on it and whatever became of it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from orchestrate.cli.options import (
    end_within_option,
    json_option,
    state_dir_option,
    working_dir_option,
)
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.cancelling import announce_cancelling, forget_cancelling
from orchestrate.state.users import user_name
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.state.runs import Run


@click.command(short_help="End a run for good.")
@click.argument("run", metavar="RUN")
@end_within_option
@state_dir_option
@working_dir_option
@json_option
def cancel(
    run: str, wait_s: float, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """End a run for good: RUN is its id, the beginning of one, or `latest`.

    Its programs are ended, and it cannot be resumed any more; `orchestrate stop` ends them so that
    it can. A run that is over stays as it is.
    """
    from orchestrate.app.open_run import find_stored

    _, found, _ = find_stored(run, working_dir, state_dir, tell_fault=note_once)
    try:
        again = Place(working_dir, state_dir).command("cancel", found.id)
        message, status = _cancel(found, again, time.monotonic() + wait_s)
    finally:
        forget_cancelling(found)
    if as_json:
        answer_json({"run_id": found.id, "status": status, "message": message})
    else:
        answer(message + "\n")
    return 0


def _cancel(run: Run, again: str, give_up: float) -> tuple[str, str]:
    """What was done, and how the run stands now."""
    from orchestrate.app.claim import AtWorkError, claim_briefly
    from orchestrate.app.give_up import index_if_kept, record_cancelled
    from orchestrate.app.reach_owner import ask_to_end, await_end, end_programs

    # Read before the lock is taken, so that it is held for an instant only.
    index = index_if_kept(run)
    told: set[int] = set()
    lock = None
    while lock is None:
        over = _is_over(run, bool(told))
        if over is not None:
            return over
        try:
            lock = claim_briefly(run, "cancel")
        except AtWorkError as error:
            if error.owner.pid not in told:
                told.add(error.owner.pid)
                announce_cancelling(run)
                ask_to_end(run, error.owner, signal.SIGTERM, "cancel", note)
            await_end(run, error.owner, give_up, note)
    ended = False
    try:
        # Now that it cannot change any more.
        over = _is_over(run, bool(told))
        if over is None:
            is_interrupted = run_view(run).state.status == "running"
            ended = end_programs(
                run, "cancelled", is_interrupted=is_interrupted, give_up=give_up, again=again
            )
    except BaseException:
        lock.release()
        raise
    if over is not None:
        lock.release()
        return over
    record_cancelled(run, lock, index, user_name(os.environ), note)
    what = "; its programs were ended" if ended else ""
    return f"run {run.id} is cancelled for good: it cannot be resumed{what}", "cancelled"


def _is_over(run: Run, was_at_work: bool) -> tuple[str, str] | None:
    view = run_view(run)
    status = view.state.status
    if status == "completed":
        how = "was completed before it could be cancelled" if was_at_work else "is completed"
        return f"run {run.id} {how}; there is nothing to cancel", status
    if status == "cancelled":
        return f"run {run.id} is cancelled already", status
    if status == "failed" and view.is_denied:
        return f"run {run.id} was denied, which is final; there is nothing to cancel", status
    return None
