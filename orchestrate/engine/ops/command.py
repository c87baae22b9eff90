"""A `Run` step: a program with arguments, an environment and perhaps a file as its input."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Any

from orchestrate.engine.ahead import follower_of
from orchestrate.engine.confine import (
    PathFault,
    is_below,
    open_folder,
    open_for_output,
    open_regular,
    open_root,
    real_path_of,
    refusal,
    require_free,
    split_path,
)
from orchestrate.engine.debugging import write_call
from orchestrate.engine.evaluate import (
    Scope,
    evaluate,
    kind_of,
    render,
    render_all,
    render_value,
)
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Needed, resolve_needs
from orchestrate.engine.ops.program_result import conclude
from orchestrate.engine.programs import was_started
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip
from orchestrate.engine.whole_output import run_whole
from orchestrate.errors import explain
from orchestrate.execute.base import LOCAL, Exit, Job, Lost
from orchestrate.plan.data import Capture, FileText
from orchestrate.plan.expr import Ref, Text, show
from orchestrate.plan.nodes import OK, Ask, Run
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.calls import call_deadline
from orchestrate.state.events import Event, StepFinished
from orchestrate.state.result import CallDebug, StepResult

# Larger input goes through a file of the run's instead of the executor's memory.
_STDIN_IN_MEMORY = 1024 * 1024
_LONGEST_WORD = 500
_MOST_WORDS = 40
# What bash reads in base ten, and as nothing else.
_INTEGER = regex(r"-?(?:0|[1-9][0-9]{0,17})\Z", re.ASCII)


@record
class PreparedProgram:
    """A program that is ready to start; `stdin` and `tee` are as in a job."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    stdin: bytes | str | None
    tee: str | None
    cwd: str = "."


def perform_run(step: Step, op: Run) -> Event:
    """Run the command; its output and exit code become the step's result."""
    job = step.rt.sent_ahead.take(step.attempt_id)
    is_sent = job is not None
    if is_sent or not was_started(step.rt, step.attempt_id):
        job = job or job_of(step, _prepare(step, op))
        if not job.argv:
            return nothing_to_run(step, op)
        values = [name for name, _ in op.values]
        debug = debug_record(step, job.argv, job.env, values, job.cwd)
        if not is_sent:
            step.halt_if_useless()
        step.announce(StepResult(debug=debug), is_program=True)
    elif not step.is_announced:
        step.announce(_about_again(step, op), is_begun=True)
    ended = run_whole(step, lambda: _require(job), follower=lambda: _job_ahead(step))
    event = conclude(step, op.capture, ended, StepResult())
    if _is_on_record(step, op, ended, event):
        step.rt.note_on_record(step.frame.key)
    return event


def nothing_to_run(step: Step, op: Run) -> Event:
    """An empty command means none: the step is done, and a check has not been made."""
    done = StepResult(output="", outcome=dict(op.exits).get("0"))
    if step.node.part_of is not None:
        done |= StepResult(reason="there is no command")
    result = step.result("skipped" if step.node.part_of else "completed", 0, done)
    return step.finished(done.outcome or OK, result, "", has_value=bool(op.capture.value))


def _is_on_record(step: Step, op: Run, ended: Exit | Lost, event: Event) -> bool:
    """Does the event follow from the exit on record and the plan, whatever happens meanwhile?

    Not from files that may change (long output, a schema, what `depends_on` has found),
    nor from the time, when a call around the step may be over.
    """
    return (
        isinstance(event, StepFinished)
        and event.label == OK
        and isinstance(ended, Exit)
        and ended.stdout is not None
        and ended.stderr is not None
        and op.capture.schema is None
        and step.node.needs is None
        and step.here.where == LOCAL
        and call_deadline(step.rt.store.index, step.frame) is None
    )


def _about_again(step: Step, op: Run) -> StepResult:
    """What was said about an attempt, where a power cut took it; as far as it can be said again."""
    try:
        argv, values = render_run(op, step.scope)
        environment = step.rt.secrets.environment_of(op.environment) | values
        cwd = _folder(step, op)
    except StepFault:
        return StepResult()
    return StepResult(debug=debug_record(step, argv, environment, list(values), cwd))


def _require(job: Job | None) -> Job:
    # It was started when we looked, and no executor forgets.
    assert job is not None
    return job


def _job_ahead(step: Step) -> Job | None:
    """The program that starts as soon as this one has ended well, without another word of ours."""
    if step.rt.earlier is not None:
        return None  # what follows may have a result from before the edit
    follower = follower_of(step)
    if follower is None or not isinstance(follower.node.op, Run):
        return None
    try:
        return job_of(follower, _prepare(follower, follower.node.op))
    except StepFault:
        return None  # it is its own result, when its turn comes


def _prepare(step: Step, op: Run) -> PreparedProgram:
    scope = step.scope
    needs(step)
    argv, values = render_run(op, scope)
    environment = step.rt.secrets.environment_of(op.environment) | values
    stdin = None if op.stdin is None else read_input(step, render(op.stdin.path, scope))
    cwd = _folder(step, op)
    return PreparedProgram(tuple(argv), environment, stdin, open_tee(step, op.capture), cwd)


def render_run(op: Run, scope: Scope) -> tuple[list[str], dict[str, str]]:
    """The words to run and the variables that carry values; a value in arithmetic is a number."""
    if op.is_list:
        words = tuple(Text((render_value(word),)) for word in _words(op, scope))
        return render_program(words, op.values, scope)
    argv, values = render_program(op.argv, op.values, scope)
    for name, text in op.values:
        if name in op.integers and not _INTEGER.match(values[name]):
            raise StepFault(
                f"{show(text)} stands in the shell's arithmetic and is not a whole number: "
                f"{clip(values[name], 60)!r}"
            )
    return argv, values


def _words(op: Run, scope: Scope) -> list[Any]:
    """The value of an input of type `command`; a caller may have given it as one text."""
    (reference,) = op.argv[0].parts
    assert isinstance(reference, Ref)
    given = evaluate(reference, scope)
    try:
        words = shlex.split(given) if isinstance(given, str) else given
    except ValueError:
        raise StepFault(f"{reference.text} has a quote that is not closed") from None
    if not isinstance(words, list):
        raise StepFault(f"{reference.text} is {kind_of(words)}, not a command")
    return words


def _folder(step: Step, op: Run) -> str:
    """Where a program is started: a folder of the workspace, relative to it."""
    if op.cwd is None:
        return "."
    written = render(op.cwd, step.scope)
    root = str(step.rt.workspace.root)
    inner = os.path.relpath(written, root) if is_below(written, root) else written
    names = [] if os.path.normpath(inner) == "." else split_path(inner)
    with open_root(step.rt.workspace) as top:
        try:
            with open_folder(top, "/".join(names) or ".") as folder:
                if folder.is_inside():
                    return os.path.relpath(real_path_of(folder.descriptor), top.root)
        except OSError as error:
            raise refusal("enter", step.rt.workspace, inner, error) from error
    raise PathFault(f"cwd: '{written}' leads out of the workspace")


def needs(step: Step) -> Needed:
    """The files that the step depends on, found now (C)."""
    if step.node.needs is None:
        return Needed()
    # What a check needs is what the step that it belongs to should have made.
    is_check = step.node.part_of and isinstance(step.node.op, Run)
    field = "produces" if is_check else "depends_on"
    step.needed = resolve_needs(
        step.node.needs, step.scope, step.rt.workspace, field, may_lack=step.is_rehearsed
    )
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


def job_of(step: Step, prepared: PreparedProgram) -> Job:
    return Job(
        attempt=step.attempt_id,
        argv=prepared.argv,
        env=prepared.environment,
        stdout=step.output("stdout"),
        stderr=step.output("stderr"),
        stdin=prepared.stdin,
        cwd=prepared.cwd,
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
    cwd: str = ".",
) -> CallDebug:
    """What the state says about how a program was called (C), with what it was called with.

    `values` are the variables that carry values into a shell's script.
    """
    record = CallDebug(
        command=_listed(argv),
        cwd=str(step.rt.workspace.root if cwd == "." else step.rt.workspace.root / cwd),
        env_count=len(environment),
    )
    if values:
        carried = {name: clip(environment[name], _LONGEST_WORD) for name in values[:_MOST_WORDS]}
        record |= CallDebug(values=carried)
    record |= matched_files(step) | files_of(step)
    if step.rt.options.debug:
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


def _listed(words: Sequence[str]) -> list[str]:
    shown = [clip(word, _LONGEST_WORD) for word in words[:_MOST_WORDS]]
    if len(words) > _MOST_WORDS:
        shown.append(f"… {len(words) - _MOST_WORDS} more")
    return shown
