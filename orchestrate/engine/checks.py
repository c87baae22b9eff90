"""Holds a step's output against its schema within a time limit, and obeys signals meanwhile."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from functools import partial
from typing import Any

from orchestrate.engine.faults import Halted
from orchestrate.engine.outputs import Undecided
from orchestrate.engine.programs import run_program
from orchestrate.engine.schemas import (
    SchemaVerdict,
    command,
    is_quick,
    judge,
    question_of,
    verdict_of,
)
from orchestrate.engine.step import Step
from orchestrate.errors import StateError
from orchestrate.execute.base import Exit, Job, NotStarted, Running
from orchestrate.exits import STEP_TIMED_OUT, STEP_UNUSABLE
from orchestrate.installation import was_replaced

PATIENCE_S = 10.0
_MOST_LOST = 3
# Faults of the check itself, which come again; any other signal came from outside.
_OWN = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)


def judge_in_time(step: Step, schema: Any, value: Any, spent_s: float) -> SchemaVerdict:
    """What the schema says; `Undecided` after ten seconds or what is left of the step's limit.

    A check that is certain to be quick is not worth a process.
    """
    if is_quick(schema, value):
        return judge(schema, value)
    limit_s, code = PATIENCE_S, STEP_UNUSABLE
    if step.timeout_s is not None and step.timeout_s - spent_s < limit_s:
        limit_s, code = max(step.timeout_s - spent_s, 0.001), STEP_TIMED_OUT
    began = time.monotonic()
    ended = _run(step, question_of(schema, value), limit_s)
    if step.ended_at is not None:
        # The check is a part of the step's time, a night between two sittings is not.
        step.ended_at += time.monotonic() - began
    if ended.timed_out:
        is_own = code == STEP_TIMED_OUT
        whose = "the rest of the step's time limit" if is_own else "the most it may take"
        raise Undecided(
            f"that took longer than {limit_s:.3g} s, {whose}; "
            "a `pattern` with nested repeats or `uniqueItems` over many objects can take for ever",
            code,
        )
    verdict = _verdict_in(ended)
    if verdict is not None:
        return verdict
    last = "".join((ended.stderr or b"").decode("utf-8", "replace").strip().splitlines()[-1:])
    if was_replaced() or last.startswith(("ImportError", "ModuleNotFoundError")):
        # It is the same program as we; its fault is as good as our own.
        raise ImportError(last)
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.code}"
    raise Undecided(f"the check ended with {how}{f': {last[:300]}' if last else ''}", STEP_UNUSABLE)


def _verdict_in(ended: Exit) -> SchemaVerdict | None:
    with suppress(ValueError):
        return verdict_of(ended.stdout or b"")
    return None


def _run(step: Step, question: bytes, limit_s: float) -> Exit:
    """The check as a program of the executor's. What it prints is in the record of its exit."""
    rt = step.rt
    out, err = step.log("check"), step.log("check.stderr")
    for _ in range(_MOST_LOST):
        attempt = _next_attempt(step)
        job = Job(
            attempt=attempt,
            argv=command(),
            env={},
            stdout=out.name,
            stderr=err.name,
            stdin=question,
            timeout_s=limit_s,
            grace_s=0.1,
            secrets=rt.secrets.values,
        )
        ended = run_program(rt, attempt, partial(_same, job))
        for path in (out, err):
            path.unlink(missing_ok=True)
        if isinstance(ended, Exit) and not ended.stopped and not _was_killed(ended):
            return ended
        if rt.stop.is_requested:
            raise Halted
    raise StateError(
        f"the output of step '{step.node.name}' could not be checked: the process that checks it "
        f"was ended {_MOST_LOST} times from outside (is there enough memory?)",
        f"its output is kept; check it again with: orchestrate resume {rt.facts.id}",
    )


def _was_killed(ended: Exit) -> bool:
    """Was it ended from outside (the system out of memory)? That says nothing of the output."""
    return ended.signal is not None and not ended.timed_out and ended.signal not in _OWN


def _same(job: Job) -> Job:
    return job


def _next_attempt(step: Step) -> str:
    """One that came to nothing in an earlier sitting, cut off or broken, is not continued."""
    number = 1
    while True:
        attempt = f"check/{step.attempt_id}.{number}"
        found = step.rt.executor().find(attempt, is_announced=False)
        if isinstance(found, NotStarted | Running):
            return attempt
        if isinstance(found, Exit) and (found.timed_out or _verdict_in(found)):
            return attempt
        number += 1
