"""A `Run` step: a program with arguments, an environment and perhaps a file as its input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orchestrate.engine.capture import Captured, capture_bytes, capture_output, read_tail, tail_of
from orchestrate.engine.confine import open_for_output, open_regular, real_path_of, refusal
from orchestrate.engine.evaluate import Scope, render, render_all
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Needed, resolve_needs
from orchestrate.engine.outputs import check_output
from orchestrate.engine.programs import run_program, was_started
from orchestrate.engine.step import TIMED_OUT, Step
from orchestrate.engine.texts import clip, encode
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import FAILED, LOST, OK, Capture, Run
from orchestrate.plan.retries import retry_delay
from orchestrate.process.facts import Exit, Lost, Request
from orchestrate.record import record
from orchestrate.state.durable import explain
from orchestrate.state.events import Event

# Larger input goes through a file of the run's instead of the keeper's memory.
_STDIN_IN_MEMORY = 1024 * 1024
_LONGEST_WORD = 500
_MOST_WORDS = 40


@record
class Prepared:
    """A program that is ready to start."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    stdin: bytes | Path | None
    tee: Path | None


def perform_run(step: Step, op: Run) -> Event:
    """Run the command; its output and exit code become the step's result."""
    prepared: Prepared | None = None
    if not was_started(step.rt, step.attempt_id):
        prepared = _prepare(step, op)
        about = {"debug": debug_record(step, prepared.argv, prepared.environment)}
        step.announce(about)
    elif not step.is_announced:
        step.announce(_about_again(step, op), is_begun=True)
    ended = run_program(step.rt, step.attempt_id, lambda: request_of(step, _require(prepared)))
    return conclude(step, op.capture, ended, {})


def _about_again(step: Step, op: Run) -> dict[str, Any]:
    """What was said about an attempt, where a power cut took it; as far as it can be said again."""
    try:
        argv, values = render_program(op.argv, op.values, step.scope)
        environment = step.rt.secrets.environment_of(op.environment) | values
    except StepFault:
        return {}
    return {"debug": debug_record(step, argv, environment)}


def _require(prepared: Prepared | None) -> Prepared:
    # It was started when we looked, and the keeper never forgets.
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
    return resolve_needs(step.node.needs, step.scope, step.rt.workspace)


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


def read_input(step: Step, path: str) -> bytes | Path:
    """The content of `input_file`, read from what was opened and checked."""
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
        return copy


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def open_tee(step: Step, capture: Capture) -> Path | None:
    """`output_file`, made and emptied in its place in the workspace."""
    if capture.output_file is None:
        return None
    with open_for_output(step.rt.workspace, render(capture.output_file, step.scope)) as opened:
        return Path(real_path_of(opened.fileno()))


def request_of(step: Step, prepared: Prepared) -> Request:
    rt = step.rt
    return Request(
        attempt=step.attempt_id,
        argv=prepared.argv,
        env=prepared.environment,
        cwd=rt.workspace.root,
        stdout_path=step.log("stdout"),
        stderr_path=step.log("stderr"),
        stdin=prepared.stdin,
        tee_path=prepared.tee,
        tee_root=None if prepared.tee is None else rt.workspace.root,
        timeout_s=step.timeout_s,
        secrets=rt.secrets.values,
        guarded=False,
    )


def debug_record(
    step: Step, argv: tuple[str, ...] | list[str], environment: dict[str, str]
) -> dict[str, Any]:
    """What the state says about how a program was called (C)."""
    shown = [clip(word, _LONGEST_WORD) for word in argv[:_MOST_WORDS]]
    if len(argv) > _MOST_WORDS:
        shown.append(f"… {len(argv) - _MOST_WORDS} more")
    record = {"command": shown, "cwd": ".", "env_count": len(environment)}
    if step.rt.options.debug:
        from orchestrate.engine.debugging import write_call

        write_call(step, argv, environment)
    return record


# Afterwards.


def conclude(step: Step, capture: Capture, ended: Exit | Lost, more: dict[str, Any]) -> Event:
    """A program's end becomes the step's result, a retry, or the news that it was lost."""
    earlier = step.frame.steps.get(step.node.name, {})
    if isinstance(earlier, dict) and "debug" in earlier:
        more = {"debug": earlier["debug"]} | more
    if isinstance(step.node.op, Run) and step.node.op.stdin is not None:
        step.rt.forget_later(step.frame.key, step.log("stdin"))
    if isinstance(ended, Lost):
        return lost(step, ended, more)
    step.ended_at = ended.ended_at
    if ended.stopped:
        error = {"message": f"stopped: {ended.stopped}", "exit_code": 130}
        return step.ended("stopped", step.result("failed", 130, error=error, **more))
    code = exit_code_of(ended)
    captured = capture_exit(step, capture, ended, code)
    debug = {**more.pop("debug", {}), **captured.debug}
    fields = captured.fields | more | ({"debug": debug} if debug else {})
    code = captured.exit_code
    if code == 0:
        return _check_and_finish(step, capture, captured, fields)
    error = error_of(step, ended, code, captured)
    return failed_attempt(step, step.result("failed", code, **fields, error=error), code)


def lost(step: Step, ended: Lost, more: dict[str, Any]) -> Event:
    """Nobody knows how it ended, but it is over: a new attempt, or a person decides."""
    error = {"message": f"attempt {step.attempt} was lost: {ended.reason}", "exit_code": 1}
    result = step.result("failed", None, error=error, **more)
    if step.node.on_lost == "retry":
        return step.ended("lost", result)
    return step.finished(LOST, result)


def exit_code_of(ended: Exit) -> int:
    if ended.timed_out:
        return TIMED_OUT
    if ended.code is not None:
        return ended.code
    return 128 + (ended.signal or 0)


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
    step: Step, capture: Capture, captured: Captured, fields: dict[str, Any]
) -> Event:
    try:
        check_captured(step, capture, captured)
    except StepFault as fault:
        error = {"message": fault.message, "exit_code": 2, "context": fault.context}
        return failed_attempt(step, step.result("failed", 2, **fields, error=error), 2)
    return step.finished(OK, step.result("completed", 0, **fields))


def check_captured(step: Step, capture: Capture, captured: Captured) -> None:
    """Hold captured JSON against the author's schema and requirements (C 1.3)."""
    if "json" in captured.fields and (capture.schema is not None or capture.require):
        check_output(
            captured.fields["json"],
            schema=None if capture.schema is None else render(capture.schema, step.scope),
            require=capture.require,
            workspace=step.rt.workspace,
        )


def error_of(step: Step, ended: Exit, code: int, captured: Captured) -> dict[str, Any]:
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
    error: dict[str, Any] = {
        "message": message,
        "exit_code": code,
        "stdout_tail": _tail(ended.stdout, step.log("stdout"), ended.stdout_bytes),
        "stderr_tail": _tail(ended.stderr, step.log("stderr"), ended.stderr_bytes),
    }
    context = dict(captured.context)
    command = step.about.get("debug", {}).get("command")
    if command:
        context["substituted_command"] = command
    if ended.timed_out:
        context["timeout_sec"] = step.timeout_s
    if ended.output_error:
        context["output_error"] = ended.output_error
    return error | ({"context": context} if context else {})


def _tail(inline: bytes | None, path: Path, size: int) -> list[str]:
    if inline is not None:
        return tail_of(inline)
    try:
        return read_tail(path, size)
    except OSError:
        return []


def failed_attempt(
    step: Step,
    result: dict[str, Any],
    code: int,
    *,
    transient: bool = False,
    not_before: float | None = None,
) -> Event:
    """A failure: tried again if the step's rules say so, else a person or the routes decide."""
    rest = retry_delay(step.retry, step.here.tries, code, transient, step.rt.jitter())
    if rest is not None:
        if not_before is not None:
            rest = max(rest, not_before - step.rt.now())
        return step.ended("failed", result, rest)
    if step.node.on_failure == "ask":
        error = result.get("error", {})
        step.rt.store.checkpoint()
        answer = step.rt.people.choose_after_failure(
            step.node.name, error.get("message", "it failed"), error.get("stderr_tail", [])
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
    with open_for_output(step.rt.workspace, path) as opened:
        try:
            opened.write(encode(text))
        except OSError as error:
            raise refusal("write", step.rt.workspace, path, error) from error
