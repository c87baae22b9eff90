"""A `Wait` step: look for files until enough are there or the time is up."""

from __future__ import annotations

import math
import time

from orchestrate.engine.evaluate import render_pattern
from orchestrate.engine.ops.program_result import failed_attempt
from orchestrate.engine.patterns import match_pattern, show_pattern
from orchestrate.engine.step import Step
from orchestrate.exits import STEP_TIMED_OUT
from orchestrate.plan.nodes import OK, Wait
from orchestrate.plan.visible import plural
from orchestrate.state.calls import call_deadline
from orchestrate.state.events import Event
from orchestrate.state.result import StepError, StepResult


def perform_wait(step: Step, op: Wait) -> Event:
    """Sleep between looks; the time counts from the first start, watched or not."""
    rt = step.rt
    pattern = render_pattern(op.pattern, step.scope)
    step.announce()
    # The wall clock tells how much time a killed orchestrator lost; it must not add any.
    waited_before = min(max(rt.now() - step.here.since, 0.0), op.timeout_s)
    began = time.monotonic() - waited_before
    deadline = began + op.timeout_s
    polls = 0
    while True:
        polls += 1
        found = match_pattern(rt.workspace, pattern)
        now = time.monotonic()
        is_enough = len(found) >= op.min_count
        left = min(deadline - now, _left_of_call(step))
        if is_enough or left <= 0:
            break
        if step.rest(min(op.poll_ms / 1000, left)):
            return step.stopped(step.why_useless)
    waited = StepResult(
        files=found,
        wait_duration_ms=round((now - began) * 1000),
        poll_count=polls,
        timed_out=not is_enough,
    )
    if is_enough:
        return step.finished(OK, step.result("completed", 0, waited))
    wanted = plural(op.min_count, "file")
    is_own = now >= deadline
    why = f"timed out after {op.timeout_s:g} s" if is_own else "the call around it is out of time"
    message = f"{why}: {len(found)} of {wanted} matched '{show_pattern(pattern)}'"
    error = StepError(
        message=message,
        exit_code=STEP_TIMED_OUT,
        context={"timeout_sec": op.timeout_s, "pattern": show_pattern(pattern)},
    )
    result = step.result("failed", STEP_TIMED_OUT, waited | StepResult(error=error))
    return failed_attempt(step, result, STEP_TIMED_OUT)


def _left_of_call(step: Step) -> float:
    """How long the calls around it may still take."""
    deadline = call_deadline(step.rt.store.index, step.frame)
    return math.inf if deadline is None else deadline - step.rt.now()
