"""Captured JSON is held against the author's schema and requirements (C 1.3)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from orchestrate.engine.confine import open_regular
from orchestrate.engine.faults import StepFault
from orchestrate.engine.schemas import SchemaVerdict, article, judge, type_of
from orchestrate.engine.texts import decode, show_json
from orchestrate.plan.data import Require
from orchestrate.plan.visible import show_size
from orchestrate.regex import regex
from orchestrate.workspace import Workspace

SCHEMA_LIMIT = 1024 * 1024
_INDEX = regex(r"(?:0|[1-9][0-9]{0,8})\Z")
_ABSENT: Any = object()

Judging = Callable[[Any, Any], SchemaVerdict]


class Undecided(Exception):
    """A check came to no end; the exit code says whether the step's own time was up."""

    def __init__(self, why: str, exit_code: int) -> None:
        super().__init__(why)
        self.exit_code = exit_code


def check_output(
    value: Any,
    *,
    schema: str | None,
    require: Iterable[Require],
    workspace: Workspace,
    judging: Judging = judge,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise a `StepFault` if the value breaks the schema at that path, or a requirement.

    `kept`: the texts of schemas that the run has kept; those on the disk may differ.
    """
    if schema is not None:
        text = kept[schema] if schema in kept else read_schema_text(schema, workspace)
        check_schema(value, schema, text, judging)
    check_requirements(value, require)


def check_schema(value: Any, path: str, text: str, judging: Judging = judge) -> None:
    """Raise a `StepFault` with readable `json_schema_errors` if the value breaks the schema.

    Nothing is ever fetched: a reference that leaves the schema's file is a fault of its own.
    """
    schema = _parsed(path, text)
    try:
        verdict = judging(schema, value)
    except Undecided as fault:
        raise StepFault(
            f"the output could not be checked against its schema '{path}': {fault}",
            {"output_schema": path},
            exit_code=fault.exit_code,
        ) from None
    if verdict.unusable:
        raise _unusable(path, verdict.unusable)
    if verdict.errors:
        raise StepFault(
            f"the output breaks its schema '{path}': {verdict.errors[0]}",
            {"json_schema_errors": verdict.errors},
        )


def check_requirements(value: Any, requirements: Iterable[Require]) -> None:
    """Raise a `StepFault` for the first requirement that the value does not meet."""
    for requirement in requirements:
        if reason := _unmet(requirement, resolve_pointer(value, requirement.pointer)):
            pointer = requirement.pointer
            shown = f"'{pointer}'" if pointer else "the whole output"
            raise StepFault(
                f"the output does not meet its requirement: {shown} {reason}",
                {"json_require_failed": {"pointer": pointer, "reason": reason}},
            )


def resolve_pointer(value: Any, pointer: str) -> Any:
    """What an RFC 6901 pointer leads to; `is_absent` knows when it leads nowhere."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.match(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return _ABSENT
    return value


def is_absent(value: Any) -> bool:
    return value is _ABSENT


def _unmet(requirement: Require, value: Any) -> str:
    """Why a requirement does not hold, or ''."""
    if is_absent(value):
        return "is missing" if requirement.exists else ""
    if not requirement.exists:
        return "exists, but must not"
    wanted = requirement.type
    if wanted is not None and not _TYPES[wanted](value):
        return f"is {type_of(value)}, not {article(wanted)}"
    if requirement.has_equals and not _same(value, requirement.equals):
        return f"is {show_json(value)}, not {show_json(requirement.equals)}"
    return ""


def _same(value: Any, wanted: str | float | bool | None) -> bool:
    """Equality of JSON: 1 is 1.0, but true is not 1."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def read_schema_text(path: str, workspace: Workspace) -> str:
    """The text of a schema's file; a `StepFault` if there is none that could be used."""
    with open_regular(workspace, path) as opened:
        data = opened.read(SCHEMA_LIMIT + 1)
    if len(data) > SCHEMA_LIMIT:
        raise _unusable(path, f"it has more than {show_size(SCHEMA_LIMIT)}")
    return decode(data)[0].removeprefix("\ufeff")


def _parsed(path: str, text: str) -> Any:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise _unusable(path, f"it is {type_of(schema)}, not an object")
    return schema


def _unusable(path: str, reason: str) -> StepFault:
    return StepFault(f"output_schema '{path}' cannot be used: {reason}", {"output_schema": path})
