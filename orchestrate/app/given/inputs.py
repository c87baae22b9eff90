"""Inputs of a run: read, held against their declaration, asked for where they are missing."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.dialects.lowering import constant, constant_map
from orchestrate.engine.faults import Halted
from orchestrate.errors import SeveralFaults, UsageError
from orchestrate.plan.expr import Const
from orchestrate.plan.inputs import Unfit, checked, read_text
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.override import with_context
from orchestrate.record import record, replace

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.plan.settings import Input
    from orchestrate.workspace import Workspace

# Asks a person for an input until `read` takes the text; None if no answer is to be had.
Ask = Callable[["Input", Callable[[str], Any]], Any]


@record
class Given:
    """The values from outside that fit, the faults of the others, and the inputs these are of."""

    values: Mapping[str, Any] = MappingProxyType({})
    faults: tuple[UsageError, ...] = ()
    refused: frozenset[str] = frozenset()


NOTHING_GIVEN = Given()
_MATCH_S = 5.0
_LOOK_EVERY_S = 0.05
# It ends by itself, too, should we be killed before it has an answer.
_MATCH = """import re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (5, 6))
t = sys.stdin.read().split('\\0', 1)
sys.exit(not re.fullmatch(*t))"""


def with_text(program: Program, settings: RunSettings, text: str | None) -> RunSettings:
    """The settings with TEXT as the first input that the file declares."""
    if text is None:
        return settings
    inputs = main_plan(program).inputs
    if not inputs:
        raise UsageError(
            f"{text[:40]!r} is given as an input, and the file declares none",
            "declare one under inputs:, or leave the text out",
        )
    first = inputs[0]
    if any(pair.partition("=")[0] == first.name for pair in settings.input):
        raise UsageError(
            f"the input '{first.name}' is given twice: as the text after the file, and with -i",
            "leave one of them out",
        )
    return replace(settings, input=(f"{first.name}={text}", *settings.input))


def refuse_secret(one: Input) -> None:
    """A secret on the command line would stand in the shell's history and in lists of processes."""
    if one.secret:
        raise UsageError(
            f"the input '{one.name}' is a secret and cannot be given like this",
            f"set {one.variable} in the environment, or let `run` ask for it at a terminal",
        )


def value_of_text(one: Input, text: str, workspace: Workspace) -> Any:
    """The value that was written on the command line, or a fault that names the input."""
    refuse_secret(one)
    try:
        return _settled(one, read_text(one, text), workspace)
    except Unfit as unfit:
        raise _fault(one, text, unfit) from None


def checked_value(one: Input, value: Any, workspace: Workspace) -> Any:
    """A value with a type of its own, from a file or a program that uses us."""
    try:
        return _settled(one, checked(one, value), workspace)
    except Unfit as unfit:
        raise _fault(one, value, unfit) from None


def value_in_call(
    one: Input, value: Any, workspace: Workspace, is_stopping: Callable[[], bool]
) -> Any:
    """What a step hands over; a text is read as one on the command line, a path starts at the
    workspace."""
    refuse_secret(one)
    try:
        is_text = isinstance(value, str) and one.type != "string"
        read = read_text(one, value) if is_text else checked(one, value)
        return _settled(one, read, workspace, str(workspace.root), is_stopping)
    except Unfit as unfit:
        raise _fault(one, value, unfit) from None


def _fault(one: Input, value: Any, unfit: Unfit) -> UsageError:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return UsageError(f"the input '{one.name}': {shown[:60]!r} {unfit}", one.description)


def _settled(
    one: Input,
    value: Any,
    workspace: Workspace,
    base: str = "",
    is_stopping: Callable[[], bool] = lambda: False,
) -> Any:
    """What only a computer can say: does the pattern match, is the path there?"""
    if one.pattern and not _matches(one.pattern, value, is_stopping):
        raise Unfit(f"does not match {one.pattern}")
    return _path_of(one, value, workspace, base) if one.type == "path" else value


def _matches(pattern: str, text: str, is_stopping: Callable[[], bool]) -> bool:
    """In a process of its own, because some patterns take for ever."""
    import subprocess

    with subprocess.Popen(
        [sys.executable, "-I", "-c", _MATCH],
        stdin=subprocess.PIPE,
        env={"PYTHONIOENCODING": "utf-8:surrogateescape"},
    ) as asked:
        question: bytes | None = f"{pattern}\0{text}".encode("utf-8", "surrogateescape")
        give_up = time.monotonic() + _MATCH_S
        while True:
            try:
                asked.communicate(question, _LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                question = None  # what was not written yet is still known to it
            if is_stopping() or time.monotonic() > give_up:
                asked.kill()
                break
    if asked.returncode in (-signal.SIGKILL, -signal.SIGXCPU):
        if is_stopping():
            raise Halted
        raise Unfit(f"could not be held against {pattern} within {_MATCH_S:g} s")
    return asked.returncode == 0


def _path_of(one: Input, value: str, workspace: Workspace, base: str) -> str:
    """A path from the caller's folder, or from `base` on, as steps read it: from the workspace on.

    An empty one means none, where the default says so.
    """
    if not value and one.default == constant(""):
        return ""
    if not value:
        raise Unfit("is not a path")
    path = os.path.realpath(os.path.join(base, value))
    root = os.path.realpath(workspace.root)
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        raise Unfit(f"is not in the workspace {workspace.root}")
    if not os.path.exists(path):
        raise Unfit("does not exist")
    return os.path.relpath(path, root)


def missing_inputs(program: Program) -> list[Input]:
    """The inputs that have no value."""
    plan = main_plan(program)
    given = dict(plan.context.items)
    return [
        one
        for one in plan.inputs
        if (one.variable not in os.environ if one.secret else one.name not in given)
    ]


def unset_secrets(program: Program) -> frozenset[str]:
    """The variables of the environment that hold secrets and are not set."""
    named = (secret.name for plan in program.plans for secret in plan.secrets)
    return frozenset(name for name in named if name not in os.environ)


def require_inputs(
    program: Program, workspace: Workspace, ask: Ask | None, given: Given = NOTHING_GIVEN
) -> Program:
    """The program with all its inputs; those that are missing are asked for.

    What is wrong is told before anything is asked, and together with all that is missing.
    """
    wrong = [*given.faults, *_wrong_untold(program, workspace)]
    missing = [one for one in missing_inputs(program) if one.name not in given.refused]
    lacking: list[Input] = []
    asked: dict[str, Any] = {}
    if ask is None:
        missing, lacking = [], missing
    else:
        refuse_all(wrong)
    for one in missing:
        value = None if ask is None else ask(one, lambda text, one=one: _read(one, text, workspace))  # type: ignore[misc]
        if value is None:
            lacking.append(one)
        elif one.secret:
            # As if the user had set it; it goes where the values of secrets go, and nowhere else.
            os.environ[one.variable] = value
        else:
            asked[one.name] = value
    if lacking:
        raise _lack(lacking, main_plan(program).inputs[0], wrong)
    refuse_all(wrong)
    return with_context(program, constant_map(asked)) if asked else program


def _wrong_untold(program: Program, workspace: Workspace) -> list[UsageError]:
    """What was not typed must fit, too: secrets of the environment, and defaults that hold."""
    plan = main_plan(program)
    held = dict(plan.context.items)
    faults = []
    for one in plan.inputs:
        try:
            if one.secret and one.variable in os.environ:
                _settled(one, checked(one, os.environ[one.variable]), workspace)
            elif isinstance(one.default, Const) and held.get(one.name) == one.default:
                _settled(one, one.default.value, workspace, str(workspace.root))
        except Unfit as unfit:
            what = f"what is in {one.variable}" if one.secret else "its default"
            way = "set another value" if one.secret else f"give another: -i {one.name}=…"
            hint = f"{one.description}; {way}" if one.description else way
            faults.append(UsageError(f"the input '{one.name}': {what} {unfit}", hint))
    return faults


def _read(one: Input, text: str, workspace: Workspace) -> Any:
    return _settled(one, read_text(one, text), workspace)


def refuse_all(faults: Sequence[UsageError]) -> None:
    """Every wrong value at once, so that one more try is enough."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise SeveralFaults(f"{len(faults)} inputs cannot be taken", [*map(_in_a_line, faults)])


def _in_a_line(fault: UsageError) -> str:
    return f"{fault.message} ({fault.hint})" if fault.hint else fault.message


def _lack(lacking: list[Input], first: Input, wrong: list[UsageError]) -> UsageError:
    """What is missing, and what is wrong beside it, with the way to give it."""
    plain = " ".join(f"-i {one.name}=…" for one in lacking if not one.secret)
    secret = ", ".join(one.variable for one in lacking if one.secret)
    ways = [f"give {plain}"] if plain else []
    if lacking[0] is first and not first.secret:
        ways.append(f'{first.name} can be the text after the file, too: run FILE "TEXT"')
    ways += [f"set {secret} in the environment"] if secret else []
    if wrong:
        none = [UsageError(f"the input '{it.name}' has no value", it.description) for it in lacking]
        told = [*map(_in_a_line, (*wrong, *none))]
        return SeveralFaults(f"{len(told)} inputs are wrong or missing", told, "; ".join(ways))
    listed = [f"{one.name} ({one.description})" if one.description else one.name for one in lacking]
    noun = "an input has" if len(lacking) == 1 else f"{len(lacking)} inputs have"
    return UsageError(f"{noun} no value: {', '.join(listed)}", "; ".join(ways))
