"""Ends a run from outside, as `stop` and `cancel` do, whichever process works on it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.deciding.record_unfolded import index_if_kept, record_cancelled, record_end
from orchestrate.app.ending.claim import AtWorkError, claim_briefly
from orchestrate.app.ending.end_calls import settle_calls
from orchestrate.app.ending.kept_programs import are_programs_left, do_programs_run
from orchestrate.app.ending.reach_owner import ask_to_end, await_end, end_programs, still_running
from orchestrate.errors import StateError
from orchestrate.exits import stopped_by
from orchestrate.interrupts import ASKED_TO_STOP
from orchestrate.state.cancelling import announce_cancelling, forget_cancelling
from orchestrate.state.users import user_name
from orchestrate.view.run_view import RunView, run_view

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock, Owner
    from orchestrate.state.runs import Run

Note = Callable[[str], None]


class _Ending:
    """Tells each process that works on a run to end, once, and waits until it has."""

    def __init__(self, run: Run, verb: str, number: signal.Signals, give_up: float, note: Note):
        self._run = run
        self._verb = verb
        self._number = number
        self._give_up = give_up
        self._note = note
        self._told: set[int] = set()

    @property
    def was_at_work(self) -> bool:
        return bool(self._told)

    def take_lock(self) -> Lock | None:
        """The run's lock, or None after its owner has ended, which may have changed the run."""
        try:
            return claim_briefly(self._run, self._verb)
        except AtWorkError as error:
            self._end(error.owner)
            return None

    def _end(self, owner: Owner) -> None:
        if owner.pid not in self._told:
            self._told.add(owner.pid)
            if self._verb == "cancel":
                announce_cancelling(self._run)
            ask_to_end(self._run, owner, self._number, self._verb, self._note)
        await_end(self._run, owner, self._give_up, self._note)


def stop_run(run: Run, again: str, give_up: float, note: Note) -> tuple[str, RunView]:
    """Stop a run so that it can be resumed: what was done, and how it stands now."""
    interrupted = stopped_by(signal.SIGINT)
    ending = _Ending(run, "stop", ASKED_TO_STOP, give_up, note)
    lock = None
    while lock is None:
        lock = ending.take_lock()
    is_open = was_left = False
    try:
        view = run_view(run)
        is_open = not ending.was_at_work and view.state.status == "running"
        was_left = is_open or (not ending.was_at_work and do_programs_run(run))
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
    if not (ending.was_at_work or was_left):
        return f"run {run.id} is not running: it is {view.shown_status}; nothing was stopped", view
    is_over = view.status not in ("paused", "interrupted")
    what = "had ended before it was stopped" if is_over else "is stopped"
    return f"run {run.id} {what}", view


def cancel_run(run: Run, again: str, give_up: float, note: Note) -> tuple[str, str]:
    """End a run for good: what was done, and its status now."""
    try:
        return _cancel(run, again, give_up, note)
    finally:
        forget_cancelling(run)


def _cancel(run: Run, again: str, give_up: float, note: Note) -> tuple[str, str]:
    # Read before the lock is taken, so that it is held for an instant only.
    index = index_if_kept(run)
    ending = _Ending(run, "cancel", signal.SIGTERM, give_up, note)
    lock = None
    while lock is None:
        over = _is_over(run, was_at_work=ending.was_at_work)
        if over is not None:
            if over[1] == "cancelled":
                settle_calls(run, None)  # who cancelled it may have been killed just then
            return over
        lock = ending.take_lock()
    ended = False
    try:
        # Now that it cannot change any more.
        over = _is_over(run, was_at_work=ending.was_at_work)
        if over is None:
            is_interrupted = _may_have_programs(run)
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


def _may_have_programs(run: Run) -> bool:
    """Was the process that worked on the run killed? So it is taken to be if nothing tells."""
    try:
        return run_view(run).state.status == "running"
    except StateError:
        return True


def _is_over(run: Run, *, was_at_work: bool) -> tuple[str, str] | None:
    try:
        view = run_view(run)
    except StateError:
        return None  # neither its state nor its journal can be read: it can be ended all the same
    status = view.state.status
    if status == "completed":
        how = "was completed before it could be cancelled" if was_at_work else "is completed"
        return f"run {run.id} {how}; there is nothing to cancel", status
    if status == "cancelled":
        return f"run {run.id} is cancelled already", status
    if status == "failed" and view.is_denied:
        return f"run {run.id} was denied, which is final; there is nothing to cancel", status
    return None
