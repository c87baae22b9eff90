"""A `Run` step: a program with arguments, an environment and perhaps a file as its input."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrate.engine.capture import Captured, capture_bytes, capture_output, read_tail, tail_of
from orchestrate.engine.checks import judge_in_time
from orchestrate.engine.confine import (
    open_for_output,
    open_regular,
    real_path_of,
    refusal,
    require_free,
)
from orchestrate.engine.evaluate import Scope, render, render_all
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Needed, resolve_needs
from orchestrate.engine.lost_attempts import lost
from orchestrate.engine.outputs import check_output
from orchestrate.engine.programs import was_started
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip, encode
from orchestrate.engine.whole_output import run_whole
from orchestrate.errors import explain
from orchestrate.execute.base import Exit, Job, Lost
from orchestrate.exits import STEP_TIMED_OUT, of_signal
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import FAILED, OK, Ask, Capture, FileText, Run
from orchestrate.plan.retries import retry_delay
from orchestrate.record import record
from orchestrate.state.events import Event
from orchestrate.state.result import CallDebug, RetryCount, StepError, StepResult

# Larger input goes through a file of the run's instead of the executor's memory.
_STDIN_IN_MEMORY = 1024 * 1024
_LONGEST_WORD = 500
_MOST_WORDS = 40


@record
class Prepared:
    """A program that is ready to start; `stdin` and `tee` are as in a job."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    stdin: bytes | str | None
    tee: str | None


def perform_run(step: Step, op: Run) -> Event:
    """Run the command; its output and exit code become the step's result."""
    prepared: Prepared | None = None
    if not was_started(step.rt, step.attempt_id):
        prepared = _prepare(step, op)
        values = [name for name, _ in op.values]
        debug = debug_record(step, prepared.argv, prepared.environment, values)
        step.announce(StepResult(debug=debug))
    elif not step.is_announced:
        step.announce(_about_again(step, op), is_begun=True)
    ended = run_whole(step, lambda: job_of(step, _require(prepared)))
    return conclude(step, op.capture, ended, StepResult())


def _about_again(step: Step, op: Run) -> StepResult:
    """What was said about an attempt, where a power cut took it; as far as it can be said again."""
    try:
        argv, values = render_program(op.argv, op.values, step.scope)
        environment = step.rt.secrets.environment_of(op.environment) | values
    except StepFault:
        return StepResult()
    return StepResult(debug=debug_record(step, argv, environment, list(values)))


def _require(prepared: Prepared | None) -> Prepared:
    # It was started when we looked, and no executor forgets.
    assert prepared is not None
    return prepared


def _prepare(step: Step, op: Run) -> Prepared:
    scope = step.scope
    needs(step)
    argv, values = render_program(op.argv, op.values, scope)
    environment = step.rt.secrets.environment_of(op.environment) | values
    stdin = None if op.stdin is None else read_input(step, render(op.stdin.path, scope))
    return Prepared(tuple(argv), environment, stdin, open_tee(step, op.capture))


def needs(step: Step) -> Needed:
    """The files that the step depends on, found now (C)."""
    if step.node.needs is None:
        return Needed()
    step.needed = resolve_needs(step.node.needs, step.scope, step.rt.workspace)
    return step.needed


def render_program(
    argv: tuple[Text, ...], values: tuple[tuple[str, Text], ...], scope: Scope
) -> tuple[list[str], dict[str, str]]:
    """Arguments and the values that reach a shell by its environment; one fault for all of them."""
    rendered = render_all((*argv, *(text for _, text in values)), scope)
    words = rendered[: len(argv)]
    carried = dict(zip((name for name, _ in values), rendered[len(argv) :], strict=True))
    for text in rendered:
        if "\0" in text:
            raise StepFault("an argument has a NUL character, which no program can be given")
    return words, carried


def read_input(step: Step, path: str) -> bytes | str:
    """The content of `input_file`, read from what was opened and checked, or what has a copy."""
    with open_regular(step.rt.workspace, path) as opened:
        size = os.fstat(opened.fileno()).st_size
        if size <= _STDIN_IN_MEMORY:
            return opened.read()
        copy = step.log("stdin")
        try:
            with open(copy, "wb", opener=_private) as target:
                while chunk := opened.read(_STDIN_IN_MEMORY):
                    target.write(chunk)
        except OSError as error:
            raise explain("write", copy, error) from error
        return copy.name


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def open_tee(step: Step, capture: Capture) -> str | None:
    """`output_file`, made and emptied in its place in the workspace."""
    if capture.output_file is None:
        return None
    with open_for_output(step.rt.workspace, render(capture.output_file, step.scope)) as opened:
        return os.path.relpath(real_path_of(opened.fileno()), step.rt.workspace.root)


def check_target(step: Step, capture: Capture) -> None:
    """Refuse an `output_file` that is not the step's to write, before an agent is paid."""
    if capture.output_file is not None:
        require_free(step.rt.workspace, render(capture.output_file, step.scope))


def job_of(step: Step, prepared: Prepared) -> Job:
    return Job(
        attempt=step.attempt_id,
        argv=prepared.argv,
        env=prepared.environment,
        stdout=step.output("stdout"),
        stderr=step.output("stderr"),
        stdin=prepared.stdin,
        tee=prepared.tee,
        timeout_s=step.timeout_s,
        grace_s=step.rt.rules.grace_s,
        secrets=step.rt.secrets.values,
        guarded=False,
    )


def debug_record(
    step: Step,
    argv: Sequence[str],
    environment: dict[str, str],
    values: Sequence[str] = (),
) -> CallDebug:
    """What the state says about how a program was called (C), with what it was called with.

    `values` are the variables that carry values into a shell's script.
    """
    record = CallDebug(
        command=_listed(argv), cwd=str(step.rt.workspace.root), env_count=len(environment)
    )
    if values:
        carried = {name: clip(environment[name], _LONGEST_WORD) for name in values[:_MOST_WORDS]}
        record |= CallDebug(values=carried)
    record |= matched_files(step) | files_of(step)
    if step.rt.options.debug:
        from orchestrate.engine.debugging import write_call

        write_call(step, argv, environment, record)
    return record


def matched_files(step: Step) -> CallDebug:
    """What the patterns of `depends_on` have found."""
    if step.needed is None:
        return CallDebug()
    found = {"required": _listed(step.needed.required), "optional": _listed(step.needed.optional)}
    return CallDebug(depends_on={kind: names for kind, names in found.items() if names})


def files_of(step: Step) -> CallDebug:
    """The files of the workspace that the step reads or writes itself."""
    op = step.node.op
    if not isinstance(op, Run | Ask):
        return CallDebug()
    read = op.stdin if isinstance(op, Run) else op.prompt
    files: dict[str, str] = {}
    if isinstance(read, FileText):
        files["input_file"] = clip(render(read.path, step.scope), _LONGEST_WORD)
    if op.capture.output_file is not None:
        files["output_file"] = clip(render(op.capture.output_file, step.scope), _LONGEST_WORD)
    return CallDebug(files=files) if files else CallDebug()


def _call_context(debug: CallDebug) -> dict[str, Any]:
    """What `error.context` says about a call: values, files that were found, read and written."""
    context = debug.only("values", "depends_on", "files").to_json()
    return context | ({"substituted_command": debug.command} if debug.command else {})


def _listed(words: Sequence[str]) -> list[str]:
    shown = [clip(word, _LONGEST_WORD) for word in words[:_MOST_WORDS]]
    if len(words) > _MOST_WORDS:
        shown.append(f"… {len(words) - _MOST_WORDS} more")
    return shown


# Afterwards.


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
    found = captured.output | more | StepResult(debug=debug)
    code = captured.exit_code
    if code == 0:
        return _check_and_finish(step, capture, captured, found, ended.duration_s)
    found |= StepResult(error=error_of(step, ended, code, captured))
    return failed_attempt(step, step.result("failed", code, found), code)


def exit_code_of(ended: Exit) -> int:
    if ended.timed_out:
        return STEP_TIMED_OUT
    if ended.code is not None:
        return ended.code
    return of_signal(ended.signal or 0)


def capture_exit(step: Step, capture: Capture, ended: Exit, code: int) -> Captured:
    path = step.log("stdout")
    if ended.stdout is not None:
        captured = capture_bytes(
            ended.stdout,
            mode=capture.mode,
            exit_code=code,
            allow_parse_error=capture.allow_parse_error,
        )
    else:
        captured = capture_output(
            path,
            ended.stdout_bytes,
            mode=capture.mode,
            exit_code=code,
            allow_parse_error=capture.allow_parse_error,
        )
    if not captured.keep_log and ended.stdout_bytes:
        step.rt.forget_later(step.frame.key, path)
    return captured


def _check_and_finish(
    step: Step, capture: Capture, captured: Captured, found: StepResult, spent_s: float
) -> Event:
    try:
        check_captured(step, capture, captured, spent_s)
    except StepFault as fault:
        return unfit(step, fault, found)
    return step.finished(OK, step.result("completed", 0, found))


def unfit(step: Step, fault: StepFault, found: StepResult) -> Event:
    """Output that is not what the author wants, whoever gave it."""
    code = fault.exit_code
    error = StepError(message=fault.message, exit_code=code, context=fault.context)
    return failed_attempt(step, step.result("failed", code, found | StepResult(error=error)), code)


def check_captured(step: Step, capture: Capture, captured: Captured, spent_s: float) -> None:
    """Hold captured JSON against the author's schema and requirements (C 1.3).

    `spent_s`: of the step's time limit, by whoever gave the output.
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


def _tail(inline: bytes | None, path: Path, size: int) -> list[str]:
    if inline is not None:
        return tail_of(inline)
    try:
        return read_tail(path, size)
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
        answer = step.rt.people.choose_after_failure(
            step.address.step.shown, error.message, error.stderr_tail
        )
        if answer == "retry":
            return step.ended("failed", result)
        return step.finished(FAILED, result, choice="continue" if answer == "continue" else "stop")
    return step.finished(FAILED, result)


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
