"""Runs an agent's program for one turn: the prompt kept, the session noted, the output whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrate.agents.base import Agent, Finished, Invocation
from orchestrate.engine.faults import Halted
from orchestrate.engine.first_start import FirstStart
from orchestrate.engine.ops.command import PreparedProgram, debug_record, job_of
from orchestrate.engine.programs import Watch, judge_silence
from orchestrate.engine.sessions import Turn, beginning, seen
from orchestrate.engine.slots import with_slot
from orchestrate.engine.step import Step
from orchestrate.engine.stop import Stop
from orchestrate.engine.texts import decode
from orchestrate.engine.watchdog import Watchdog
from orchestrate.engine.whole_output import run_whole
from orchestrate.execute.base import Job, Lost
from orchestrate.execute.reasons import OVER_BUDGET
from orchestrate.record import replace
from orchestrate.state.durable import read_file, write_visibly
from orchestrate.state.slots import Ticket

# How often a running agent's output is looked at until its session is known.
_LOOK_EVERY_S = 1.0
# How long an output is read on after a signal, so that one that is nearly read is not lost.
_READ_ON_S = 0.5


class LostAttempt(Exception):
    """The agent's program is gone, and its end was not seen."""

    def __init__(self, ended: Lost) -> None:
        super().__init__(ended.reason)
        self.ended = ended


def runner(step: Step, agent: Agent, turn: Turn, slot: Ticket | None = None) -> Any:
    """Starts or adopts the agent's program; its session is written down as soon as it shows."""
    out, err = step.log("stdout"), step.log("stderr")
    first = FirstStart(step.rt.environment, lambda: step.why_useless)
    watchdog = Watchdog(step, agent)

    def look() -> float | None:
        session = agent.session_in(beginning(step), turn.session)
        events = seen(step, turn, session)
        if events:
            step.rt.store.record(*events)
            step.rt.store.checkpoint()
        if session is not None:
            first.end()
        is_held = slot is None or slot.hand_over()
        is_watched = watchdog.look()
        return _LOOK_EVERY_S if session is None or not is_held or is_watched else None

    watch: Watch = look

    def run(invocation: Invocation) -> Finished:
        def job() -> Job:
            prepared = PreparedProgram(
                invocation.argv, dict(invocation.environment), invocation.stdin, None
            )
            # What goes to the program: an adapter may have changed or added to the prompt.
            step.keep_prompt(decode(invocation.stdin)[0])
            step.log("usage.json").unlink(missing_ok=True)  # an earlier attempt's
            debug_record(step, invocation.shown or invocation.argv, dict(invocation.environment))
            silence_s = step.rt.rules.silence_s or None
            first.begin(invocation.made_first)
            own = with_slot(job_of(step, prepared), agent.name, slot)
            return replace(own, guarded=True, silence_s=silence_s)

        try:
            whole = run_whole(step, job, watch)
        finally:
            first.end()
        ended = judge_silence(step.rt, step.attempt_id, whole)
        if isinstance(ended, Lost):
            raise LostAttempt(ended)
        step.ended_at = ended.ended_at
        _restore(out, ended.stdout, ended.stdout_bytes)
        _restore(err, ended.stderr, ended.stderr_bytes)
        return Finished(
            code=ended.code,
            signal=ended.signal,
            stdout=out,
            stderr=err,
            timed_out=ended.timed_out,
            fell_silent=ended.fell_silent,
            stopped=ended.stopped,
            is_over_budget=ended.stopped == OVER_BUDGET,
            start_error=ended.start_error,
            go_on=_halting(step.rt.stop, is_ours=bool(ended.stopped)),
        )

    return run


def _halting(stop: Stop, *, is_ours: bool) -> Callable[[], None]:
    """Ends the reading of an output when a signal says so: a `resume` reads it again.

    What we have stopped ourselves is read to its end, for its session and its cost, unless there is
    a second signal; and most outputs are read in no time.
    """
    until = time.monotonic() + _READ_ON_S

    def go_on() -> None:
        if stop.is_requested and (stop.is_urgent or not is_ours) and time.monotonic() > until:
            raise Halted

    return go_on


def _restore(path: Path, captured: bytes | None, size: int) -> None:
    """Let a file of the attempt be there as its end was recorded, whatever lies there now.

    A program that printed nothing has no answer; and `resume --repair` may have gone back to a
    state from before the attempt, and a person may have edited the file.
    """
    if not size:
        captured = b""
        path.touch(mode=0o600)
    if captured is not None and read_file(path) != captured:
        write_visibly(path, captured)
