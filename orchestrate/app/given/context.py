"""The values that a run is given from outside: inputs, --context and --context-file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.app.given.data_files import read_given_file
from orchestrate.app.given.inputs import (
    Given,
    checked_value,
    refuse_all,
    refuse_secret,
    value_of_text,
)
from orchestrate.app.given.settings import FLAGS
from orchestrate.diagnostics import closest
from orchestrate.dialects.lowering import constant_map
from orchestrate.errors import UsageError
from orchestrate.lang.curly import NAMESPACES
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.override import with_context

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


def with_given_context(
    program: Program,
    settings: RunSettings,
    workspace: Workspace,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Program:
    """The program with the values of the flags, and others over them."""
    values = context_of(program, settings, workspace, more)
    return with_context(program, constant_map(values)) if values else program


def context_of(
    program: Program,
    settings: RunSettings,
    workspace: Workspace,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The values that the flags give, and others over them; one that does not fit is refused."""
    given = read_given(program, settings, workspace, more)
    refuse_all(given.faults)
    return dict(given.values)


def read_given(
    program: Program, settings: RunSettings, workspace: Workspace, more: Mapping[str, Any]
) -> Given:
    """What the flags give, a single value over those of a file, and `more` over all of them."""
    plan = main_plan(program)
    values: dict[str, Any] = {}
    faults: dict[str, UsageError] = {}
    if settings.context_file is not None:
        values |= _read_mapping(program, settings.context_file, workspace, "--context-file")
    values |= _pairs(program, settings.context, "--context")
    for name in values:
        if any(one.name == name for one in plan.inputs):
            raise UsageError(f"'{name}' is an input", f"give it with -i {name}=VALUE")
    if settings.inputs_file is not None:
        given = _read_mapping(program, settings.inputs_file, workspace, "--inputs-file")
        for name, value in given.items():
            with _noted(faults, name):
                values[name] = _input_value(program, name, value, workspace)
    for name, text in _pairs(program, settings.input, "-i").items():
        with _noted(faults, name):
            values[name] = _input_text(program, name, text, workspace)
    for name, value in more.items():
        with _noted(faults, name):
            values[name] = _value_of_a_caller(program, name, value, workspace)
    _refuse_reserved(program, more, "context")
    return Given(values, tuple(faults.values()), frozenset(faults))


@contextmanager
def _noted(faults: dict[str, UsageError], name: str) -> Iterator[None]:
    """What stands over a wrong value mends it."""
    try:
        yield
        faults.pop(name, None)
    except UsageError as fault:
        faults[name] = fault


def _input_text(program: Program, name: str, text: str, workspace: Workspace) -> Any:
    """`-i NAME=VALUE`; in a file that has no such input, a variable of the context."""
    plan = main_plan(program)
    one = next((one for one in plan.inputs if one.name == name), None)
    if one is not None:
        return value_of_text(one, text, workspace)
    if plan.dialect == "machine" or (plan.inputs and name not in dict(plan.context.items)):
        raise _no_input(program, name)
    return text


def _input_value(program: Program, name: str, value: Any, workspace: Workspace) -> Any:
    one = next((one for one in main_plan(program).inputs if one.name == name), None)
    if one is None:
        raise _no_input(program, name)
    refuse_secret(one)
    return checked_value(one, value, workspace)


def _no_input(program: Program, name: str) -> UsageError:
    names = [one.name for one in main_plan(program).inputs]
    near = closest(name, names)
    also = f" (did you mean '{near}'?)" if near else ""
    hint = f"inputs: {', '.join(names)}" if names else "the file declares no inputs"
    return UsageError(f"there is no input '{name}'{also}", hint)


def _value_of_a_caller(program: Program, name: str, value: Any, workspace: Workspace) -> Any:
    """A value that a program gives which uses us."""
    one = next((one for one in main_plan(program).inputs if one.name == name), None)
    if one is None:
        FLAGS["context"].require_applicable(main_plan(program).dialect)
        return _json_value(name, value)
    refuse_secret(one)
    return checked_value(one, value, workspace)


def _json_value(name: Any, value: Any) -> Any:
    if not isinstance(name, str):
        raise UsageError(f"context: the name {name!r} is not a text")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"context: '{name}' cannot be written as JSON: {error}",
            "give texts, numbers, true, false, null, lists and mappings of these",
        ) from None
    return value


def _pairs(program: Program, pairs: tuple[str, ...], flag: str) -> dict[str, str]:
    """`KEY=VALUE`: always a text; the last one of a key counts."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{flag} {pair!r} is not KEY=VALUE", f"e.g. {flag} file=src/app.py")
        if "." in key:
            raise UsageError(
                f"{flag} {pair!r}: the name '{key}' has a dot, and no step could read it",
                f"give the whole of '{key.partition('.')[0]}' in a file: --context-file FILE",
            )
        values[key] = value
    _refuse_reserved(program, values, flag)
    return values


def _read_mapping(program: Program, name: str, workspace: Workspace, flag: str) -> dict[str, Any]:
    display = workspace.display(Path(os.path.abspath(name)))
    data = read_given_file(flag, name, display)
    if not isinstance(data, dict):
        raise UsageError(f"{flag}: '{display}' is not a mapping", 'e.g. {"file": "src/app.py"}')
    _refuse_reserved(program, data, flag)
    return dict(data)


def _refuse_reserved(program: Program, values: Iterable[str], flag: str) -> None:
    """A recipe's own names cannot be set from outside (B)."""
    if main_plan(program).dialect == "recipe":
        for key in values:
            if key in NAMESPACES:
                raise UsageError(f"{flag}: '{key}' is a reserved name")
