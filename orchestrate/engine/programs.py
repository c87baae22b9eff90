"""Programs are run by an executor: started once, found after a crash, ended when we must stop."""

from __future__ import annotations

import signal
from collections.abc import Callable

from orchestrate.engine.runtime import Runtime
from orchestrate.execute.base import Executor, Exit, Found, Job, Lost, NotStarted, Running
from orchestrate.execute.reasons import COPIED, KEEPER_TERMINATED
from orchestrate.record import replace
from orchestrate.state.store import LAG_S

# What a machine sends to everybody when it shuts down, or its terminal goes.
_OF_SHUTDOWNS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
# How long our own end may follow that of a program.
_IN_CASE_S = 1.0

MakeJob = Callable[[], Job]
# Looks at a program that is still running; says how soon it wants to look again.
Watch = Callable[[], float | None]


def run_program(
    rt: Runtime, attempt: str, make: MakeJob, watch: Watch | None = None
) -> Exit | Lost:
    """How the program ended. `make` is called only if it was never started."""
    executor = rt.executor_of(attempt)
    if attempt in rt.may_be_known:
        found = _find(rt, attempt)
        del rt.may_be_known[attempt]
        if isinstance(found, Running):
            return _judge(rt, _await_end(rt, executor, attempt, watch))
        if isinstance(found, Exit | Lost):
            ended = _as_found(found) if isinstance(found, Exit) else found
            if isinstance(ended, Lost):
                rt.inherited_losses.add(attempt)
            return ended
    # A step that takes longer than the state may lag is waited for with more care.
    end = executor.run(make(), LAG_S)
    if isinstance(end, Running):
        end = _await_end(rt, executor, attempt, watch)
    return _judge(rt, end)


def was_started(rt: Runtime, attempt: str) -> bool:
    """Was this very attempt started before we came? Then nothing is checked or made ready again."""
    if attempt not in rt.may_be_known:
        return False
    if not isinstance(_find(rt, attempt), NotStarted):
        return True
    del rt.may_be_known[attempt]
    return False


def _find(rt: Runtime, attempt: str) -> Found:
    is_announced = rt.may_be_known[attempt]
    found = rt.executor_of(attempt).find(attempt, is_announced=is_announced)
    if isinstance(found, NotStarted | Lost) and is_announced and rt.is_copy:
        return Lost(COPIED)  # whatever else became of its records
    return found


def _as_found(ended: Exit) -> Exit | Lost:
    """An end that an orchestrator did not live to judge.

    Death by a signal that was none of ours says nothing about the program: whoever ended the
    orchestrator, or the machine, has ended it too. Shells and agents say it with their exit code.
    """
    number = _foreign_signal(ended)
    if number and (number in _OF_SHUTDOWNS or not ended.watched):
        return Lost(f"it was ended by signal {number} while no orchestrator watched")
    return ended


def _judge(rt: Runtime, ended: Exit | Lost) -> Exit | Lost:
    """An end that we have seen; one that may be the beginning of ours is looked at a second later.

    At a machine's shutdown everybody gets the same signal, in any order.
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
        return Lost("it ended without a word while no orchestrator watched")
    return replace(ended, stopped=rt.stop.reason) if rt.stop.rest(_IN_CASE_S) else ended


def _foreign_signal(ended: Exit) -> int:
    """The signal of somebody else that ended a program; 0 if none did.

    A shell whose child was killed, and a program that obeys a signal, end with 128 and its number.
    """
    if ended.stopped or ended.timed_out or ended.fell_silent or ended.start_error:
        return 0
    if ended.signal is not None:
        return ended.signal
    number = (ended.code or 0) - 128
    return number if number in _OF_SHUTDOWNS else 0


def _await_end(rt: Runtime, executor: Executor, attempt: str, watch: Watch | None) -> Exit | Lost:
    stopped_with: float | None = None
    while True:
        # Counted before we look: a request that comes in between must not be slept through.
        wakes = executor.wakes
        if rt.stop.is_requested and stopped_with != rt.stop.grace_s:
            stopped_with = rt.stop.grace_s
            executor.stop(attempt, rt.stop.reason, stopped_with)
        rt.store.checkpoint()
        patience = watch() if watch is not None else None
        ended = executor.wait(attempt, patience, wakes)
        if not isinstance(ended, Running):
            return ended
