"""Programs are run by an executor: started once, found after a crash, ended when we must stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from orchestrate.engine.faults import Halted
from orchestrate.engine.runtime import Runtime
from orchestrate.execute.base import Executor, Exit, Found, Job, Lost, NotStarted, Running
from orchestrate.execute.reasons import COPIED, KEEPER_TERMINATED, MOVED, lost_with
from orchestrate.record import replace
from orchestrate.state.store import LAG_S

# What a machine sends to all processes when it shuts down, or its terminal goes.
_OF_SHUTDOWNS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
# How long our own end may follow that of a program.
_IN_CASE_S = 1.0
# How long a program may go on when the run's files cannot be written.
_LAST_S = 30.0

MakeJob = Callable[[], Job]
# The program that follows in any case, if there is one.
MakeFollower = Callable[[], Job | None]
# Looks at a program that is still running; says how soon it wants to look again.
Watch = Callable[[], float | None]


def run_program(
    rt: Runtime,
    attempt: str,
    make: MakeJob,
    watch: Watch | None = None,
    follower: MakeFollower | None = None,
) -> Exit | Lost:
    """How the program ended. `make` is called only if it was never started.

    What `follower` makes is sent ahead; if it has begun by the end, it is `rt.sent_ahead.begun`.
    """
    executor = rt.executor_of(attempt)
    troubles: list[Exception] = []
    if attempt in rt.may_be_known:
        found = _find(rt, attempt)
        del rt.may_be_known[attempt]
        rt.exits.pop(attempt, None)
        if isinstance(found, Running):
            end = _await_end(rt, executor, attempt, watch, troubles)
            return _judge(rt, _unless_in_trouble(end, troubles))
        if isinstance(found, Exit | Lost):
            ended = _as_found(found) if isinstance(found, Exit) else found
            if isinstance(ended, Lost):
                rt.inherited_losses.add(attempt)
            return ended
    # A step that takes longer than the state may lag is waited for with more care.
    sent: list[Job] = []

    def meanwhile() -> None:
        # First what the executor may need soon, then the record of what it has begun.
        if follower is not None and not rt.stop.is_requested:
            _write(lambda: sent.extend(_send_ahead(executor, attempt, follower())), troubles)
        _write(rt.store.write_down, troubles)
        _write(lambda: rt.store.checkpoint(is_due=False), troubles)
        if troubles and sent:
            executor.send_ahead(attempt, None)

    begun = executor.run(make(), LAG_S, meanwhile)
    if isinstance(begun, Running):
        begun = _await_end(rt, executor, attempt, watch, troubles)
    rt.sent_ahead.begun = next((job for job in sent if executor.has_begun(job.attempt)), None)
    return _judge(rt, _unless_in_trouble(begun, troubles))


def _send_ahead(executor: Executor, before: str, job: Job | None) -> list[Job]:
    if job is None:
        return []
    executor.send_ahead(before, job)
    return [job]


def end_begun(rt: Runtime) -> None:
    """The run cannot go on, but one more program has begun: its end is on record, if it comes soon.

    A resume goes on from there.
    """
    if rt.sent_ahead.begun is not None:
        attempt, rt.sent_ahead.begun = rt.sent_ahead.begun.attempt, None
        _await_end(rt, rt.executor_of(attempt), attempt, None, [Halted()])


def _write(write: Callable[[], None], troubles: list[Exception]) -> None:
    """Write the run's files while a program runs.

    If they cannot be written, the run stops, but not before the program has ended, if it does so
    soon: its end is on record at the executor, and a resume goes on from there without running it
    again.
    """
    if troubles:
        return
    try:
        write()
    except Exception as error:  # noqa: BLE001 - whatever it is, a program runs
        troubles.append(error)


def _unless_in_trouble(end: Exit | Lost, troubles: list[Exception]) -> Exit | Lost:
    is_cut = isinstance(end, Exit) and (end.stdout_fault or end.stderr_fault or end.tee_fault)
    # Where the program's output is not whole either, that says more, and names the step.
    if troubles and not is_cut:
        raise troubles[0]
    return end


def was_started(rt: Runtime, attempt: str) -> bool:
    """Was this very attempt started before we came? Then nothing is checked or made ready again.

    Of a resumed run not only the attempts at the cursors: what followed them may be on record at
    the executor alone (ADR 0017), up to the first attempt that has not ended: nothing was started
    behind that one.
    """
    if attempt not in rt.may_be_known:
        if not rt.is_catching_up:
            return False
        rt.may_be_known[attempt] = False
    found = _find(rt, attempt)
    rt.is_catching_up = rt.is_catching_up and isinstance(found, Exit)
    if not isinstance(found, NotStarted):
        return True
    del rt.may_be_known[attempt]
    return False


def has_ended(rt: Runtime, attempt: str) -> bool:
    """Was the exit of this attempt on record before we came?"""
    return attempt in rt.may_be_known and isinstance(_find(rt, attempt), Exit)


def _find(rt: Runtime, attempt: str) -> Found:
    if attempt in rt.exits:
        return rt.exits[attempt]
    is_announced = rt.may_be_known[attempt]
    found = rt.executor_of(attempt).find(attempt, is_announced=is_announced)
    if isinstance(found, NotStarted | Lost) and is_announced and rt.lost_with:
        return Lost(lost_with(rt.lost_with))
    if isinstance(found, NotStarted | Lost) and is_announced and rt.is_copy:
        # Whatever else became of its records.
        return Lost(MOVED if rt.store.state.settings.get("seat") else COPIED)
    if isinstance(found, Exit):
        rt.exits[attempt] = found
    return found


def _as_found(ended: Exit) -> Exit | Lost:
    """An end that an orchestrator did not live to judge.

    Death by a signal that was none of ours says nothing about the program: what ended the
    orchestrator, or the machine, has ended it too. Shells and agents say it with their exit code.
    """
    number = _foreign_signal(ended)
    if number and (number in _OF_SHUTDOWNS or not ended.watched):
        return Lost(f"it was ended by signal {number} while no orchestrator watched")
    return ended


def _judge(rt: Runtime, ended: Exit | Lost) -> Exit | Lost:
    """An end that we have seen; one that may be the beginning of ours is looked at a second later.

    At a machine's shutdown all processes get the same signal, in any order.
    """
    if isinstance(ended, Lost):
        return ended
    if ended.stopped == KEEPER_TERMINATED:
        return ended if rt.stop.rest(_IN_CASE_S) else Lost(KEEPER_TERMINATED)
    if _foreign_signal(ended) in _OF_SHUTDOWNS and rt.stop.rest(_IN_CASE_S):
        return replace(ended, stopped=rt.stop.reason)
    return ended


def judge_silence(rt: Runtime, attempt: str, ended: Exit | Lost) -> Exit | Lost:
    """An agent that ended well without a word: so some of them obey a signal to end."""
    if isinstance(ended, Lost) or ended.code != 0 or ended.stdout_bytes or ended.stopped:
        return ended
    if not ended.watched:
        rt.inherited_losses.add(attempt)
        return Lost("it ended without output while no orchestrator watched")
    return replace(ended, stopped=rt.stop.reason) if rt.stop.rest(_IN_CASE_S) else ended


def _foreign_signal(ended: Exit) -> int:
    """The foreign signal that ended a program; 0 if none did.

    A shell whose child was killed, and a program that obeys a signal, end with 128 and its number.
    """
    if ended.stopped or ended.timed_out or ended.fell_silent or ended.start_error:
        return 0
    if ended.signal is not None:
        return ended.signal
    number = (ended.code or 0) - 128
    return number if number in _OF_SHUTDOWNS else 0


def _await_end(
    rt: Runtime, executor: Executor, attempt: str, watch: Watch | None, troubles: list[Exception]
) -> Exit | Lost:
    stopped_with: float | None = None
    end_by: float | None = None
    is_ended = False
    while True:
        # Counted before we look: a request that comes in between must not be slept through.
        wakes = executor.wakes
        _write(rt.store.write_down, troubles)
        if rt.stop.is_requested and stopped_with != rt.stop.grace_s:
            stopped_with = rt.stop.grace_s
            executor.stop(attempt, rt.stop.reason, stopped_with)
        _write(lambda: rt.store.checkpoint(is_due=False), troubles)
        patience = watch() if watch is not None else None
        due = None if troubles else rt.store.due_in_s()
        if troubles and end_by is None:
            end_by = time.monotonic() + _LAST_S
            executor.send_ahead(attempt, None)
        if end_by is not None and not is_ended:
            due = end_by - time.monotonic()
            if due <= 0:
                due, is_ended = None, True
                executor.stop(attempt, "the run could not record it", rt.rules.grace_s)
        if due is not None:
            patience = due if patience is None else min(patience, due)
        ended = executor.wait(attempt, patience, wakes)
        if not isinstance(ended, Running):
            return ended
