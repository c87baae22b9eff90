"""What comes of a program that has ended: the step's result, a retry, or the news of a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrate.engine.answers import NO_JSON, find_json
from orchestrate.engine.capture import (
    TEXT_LIMIT,
    Captured,
    capture_bytes,
    capture_output,
    read_tail,
    tail_of,
)
from orchestrate.engine.checks import judge_in_time
from orchestrate.engine.confine import (
    open_for_output,
    refusal,
)
from orchestrate.engine.evaluate import LONGEST_TEXT, render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.lost_attempts import lost
from orchestrate.engine.outputs import check_output
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip, decode, encode, sendable
from orchestrate.execute.base import Exit, Lost
from orchestrate.exits import STEP_TIMED_OUT, of_signal
from orchestrate.plan.data import Capture
from orchestrate.plan.nodes import FAILED, OK, Label, Run
from orchestrate.plan.retries import retry_delay
from orchestrate.state.events import Event
from orchestrate.state.result import CallDebug, RetryCount, StepError, StepResult

_LAST_LINES = 2000


def conclude(step: Step, capture: Capture, ended: Exit | Lost, more: StepResult) -> Event:
    """A program's end becomes the step's result, a retry, or the news that it was lost."""
    debug = step.about.debug
    if isinstance(step.node.op, Run) and step.node.op.stdin is not None:
        step.rt.forget_later(step.frame.key, step.log("stdin"))
    if isinstance(ended, Lost):
        return lost(step, ended, StepResult(debug=debug) | more)
    step.ended_at = ended.ended_at
    if ended.stopped:
        return step.stopped(ended.stopped, StepResult(debug=debug) | more)
    code = exit_code_of(ended)
    captured = capture_exit(step, capture, ended, code)
    if captured.debug is not None:
        debug = captured.debug if debug is None else debug | captured.debug
    label = _label_of(step, ended, captured.exit_code)
    found = (captured.output | more).plus(debug=debug, outcome=label)
    code = captured.exit_code
    if capture.from_end:
        found |= _end_of_output(step, ended, is_failed=code != 0)
    if code == 0 and capture.value:
        return _finish_with_value(step, capture, ended, found)
    if code == 0:
        return _check_and_finish(step, capture, captured, found, ended.duration_s, label or OK)
    found |= StepResult(error=error_of(step, ended, code, captured))
    return failed_attempt(step, step.result("failed", code, found), code, label=label or FAILED)


def _label_of(step: Step, ended: Exit, code: int) -> Label | None:
    """What the author calls this exit code; None where it has no name, or there is none."""
    op = step.node.op
    exits = dict(op.exits) if isinstance(op, Run) and op.exits else {}
    if not exits or ended.timed_out or ended.start_error or ended.code is None:
        return None
    return exits.get(str(code), exits["*"])


def _end_of_output(step: Step, ended: Exit, *, is_failed: bool) -> StepResult:
    """The last 8 KiB of what was printed, for those who are to mend it."""
    printed = [(ended.stdout, "stdout", ended.stdout_bytes)]
    if is_failed:
        printed.append((ended.stderr, "stderr", ended.stderr_bytes))
    texts = (
        "\n".join(_tail(inline, step.log(kind), size, most=_LAST_LINES))
        for inline, kind, size in printed
    )
    text = "\n".join(text for text in texts if text)
    data = encode(text)
    is_cut = len(data) > TEXT_LIMIT
    kept = data[-TEXT_LIMIT:].decode("utf-8", "ignore") if is_cut else text
    return StepResult(output=kept, truncated=is_cut)


def exit_code_of(ended: Exit) -> int:
    if ended.timed_out:
        return STEP_TIMED_OUT
    if ended.code is not None:
        return ended.code
    return of_signal(ended.signal or 0)


def capture_exit(step: Step, capture: Capture, ended: Exit, code: int) -> Captured:
    if ended.stdout is not None:
        captured = capture_bytes(
            ended.stdout,
            mode=capture.mode,
            exit_code=code,
            allow_parse_error=capture.allow_parse_error,
        )
    else:
        captured = capture_output(
            step.log("stdout"),
            ended.stdout_bytes,
            mode=capture.mode,
            exit_code=code,
            allow_parse_error=capture.allow_parse_error,
        )
    if not captured.keep_log and ended.stdout_bytes:
        step.rt.forget_later(step.frame.key, step.log("stdout"))
    return captured


def _check_and_finish(
    step: Step,
    capture: Capture,
    captured: Captured,
    found: StepResult,
    spent_s: float,
    label: Label,
) -> Event:
    try:
        check_captured(step, capture, captured, spent_s)
    except StepFault as fault:
        return unfit(step, fault, found)
    return step.finished(label, step.result("completed", 0, found))


def _finish_with_value(step: Step, capture: Capture, ended: Exit, found: StepResult) -> Event:
    """All that was printed becomes a value for variables, without the line ends behind it (B)."""
    data = ended.stdout
    if data is None and ended.stdout_bytes <= LONGEST_TEXT:
        with step.log("stdout").open("rb") as opened:
            data = opened.read(ended.stdout_bytes)
    if data is None:
        fault = f"it printed more than {LONGEST_TEXT >> 20} MiB, which no variable can hold"
        return unfit(step, StepFault(fault), found)
    text = sendable(decode(data)[0].rstrip("\r\n"))
    value = find_json(text) if capture.value == "json" else text
    if value is NO_JSON:
        no_json = f"parse_json: what it printed has no JSON object or array: {clip(text, 200)!r}"
        return unfit(step, StepFault(no_json), found)
    kept = step.rt.store_value(step.rt.secrets.data(value))
    return step.finished(OK, step.result("completed", 0, found), kept, has_value=True)


def unfit(step: Step, fault: StepFault, found: StepResult) -> Event:
    """Output that is not what the author wants, of an agent or a command."""
    code = fault.exit_code
    error = StepError(message=fault.message, exit_code=code, context=fault.context)
    return failed_attempt(step, step.result("failed", code, found | StepResult(error=error)), code)


def check_captured(step: Step, capture: Capture, captured: Captured, spent_s: float) -> None:
    """Hold captured JSON against the author's schema and requirements (C 1.3).

    `spent_s`: of the step's time limit, by the program that gave the output.
    """
    if captured.output.has("json") and (capture.schema is not None or capture.require):
        check_output(
            captured.output.json,
            schema=None if capture.schema is None else render(capture.schema, step.scope),
            require=capture.require,
            workspace=step.rt.workspace,
            judging=lambda schema, value: judge_in_time(step, schema, value, spent_s),
            kept=step.rt.library.kept_schemas(),
        )


def _call_context(debug: CallDebug) -> dict[str, Any]:
    """What `error.context` says about a call: values, files that were found, read and written."""
    context = debug.only("values", "depends_on", "files").to_json()
    return context | ({"substituted_command": debug.command} if debug.command else {})


def error_of(step: Step, ended: Exit, code: int, captured: Captured) -> StepError:
    """Why a step failed, with the end of what it printed."""
    if captured.error:
        message = captured.error
    elif ended.timed_out:
        message = f"timed out after {step.timeout_s:g} s"
    elif ended.start_error:
        message = f"the program could not be started: {ended.start_error}"
    elif ended.signal is not None:
        message = f"the program was killed by signal {ended.signal}"
    else:
        message = f"Command failed with exit code {code}"
    context = dict(captured.context) | _call_context(step.about.debug or CallDebug())
    if ended.timed_out:
        context["timeout_sec"] = step.timeout_s
    error = StepError(
        message=message,
        exit_code=code,
        stdout_tail=_tail(ended.stdout, step.log("stdout"), ended.stdout_bytes),
        stderr_tail=_tail(ended.stderr, step.log("stderr"), ended.stderr_bytes),
    )
    return error | StepError(context=context) if context else error


def _tail(inline: bytes | None, path: Path, size: int, most: int = 10) -> list[str]:
    if inline is not None:
        return tail_of(inline, most)
    try:
        return read_tail(path, size, most)
    except OSError:
        return []


def failed_attempt(
    step: Step,
    result: StepResult,
    code: int,
    *,
    transient: bool = False,
    is_outage: bool = False,
    not_before: float | None = None,
    label: Label = FAILED,
) -> Event:
    """A failure: tried again if the step's rules say so, else a person or the routes decide."""
    retry, tries = step.retry, step.here.tries
    rest = retry_delay(retry, tries, code, transient, step.rt.jitter(), is_outage=is_outage)
    if rest is not None and retry is not None:
        if not_before is not None:
            rest = max(rest, not_before - step.rt.now())
        count = RetryCount(tries, retry.attempts - 1)
        return step.ended("failed", result | StepResult(retry=count), rest)
    if step.node.on_failure == "ask":
        error = result.error or StepError(message="it failed")
        step.rt.store.checkpoint()
        answer = step.rt.operator.choose_after_failure(
            step.address.step.shown, error.message, error.stderr_tail
        )
        if answer == "retry":
            return step.ended("failed", result)
        return step.finished(FAILED, result, choice="continue" if answer == "continue" else "stop")
    return step.finished(label, result)


def write_answer(step: Step, capture: Capture, text: str) -> None:
    """An agent's answer goes to `output_file` as a program's output would."""
    if capture.output_file is None:
        return
    path = render(capture.output_file, step.scope)
    try:
        # Written when it is closed, at the latest; a full disk may be noticed only then.
        with open_for_output(step.rt.workspace, path) as opened:
            opened.write(encode(text))
    except OSError as error:
        raise refusal("write", step.rt.workspace, path, error) from error
