"""Captured JSON is held against the author's schema and requirements (C 1.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from orchestrate.engine.confine import open_regular
from orchestrate.engine.faults import StepFault
from orchestrate.engine.texts import clip, decode, sendable, show_json, show_size
from orchestrate.plan.nodes import Require
from orchestrate.workspace import Workspace

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

SCHEMA_LIMIT = 1024 * 1024
_MOST_ERRORS = 20
_LONGEST_MESSAGE = 300
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_ABSENT: Any = object()


def check_output(
    value: Any, *, schema: str | None, require: Iterable[Require], workspace: Workspace
) -> None:
    """Raise a `StepFault` if the value breaks the schema at that path, or a requirement."""
    if schema is not None:
        check_schema(value, schema, workspace)
    check_requirements(value, require)


def check_schema(value: Any, path: str, workspace: Workspace) -> None:
    """Raise a `StepFault` with readable `json_schema_errors` if the value breaks the schema.

    Nothing is ever fetched: a reference that leaves the schema's file is a fault of its own.
    """
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = _read_schema(path, workspace)
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    kind: Any = Draft202012Validator
    if declared is not None:
        find: Any = validator_for
        kind = find(schema, default=None) if isinstance(declared, str) else None
        if kind is None:
            raise _unusable(path, f"$schema is {show_json(declared)}, which nobody here knows")
    try:
        kind.check_schema(schema)
        errors = list(
            islice(kind(schema, registry=Registry()).iter_errors(value), _MOST_ERRORS + 1)
        )
    except SchemaError as error:
        where = _pointer(error.absolute_path)
        raise _unusable(path, f"{where}: {_clean(error.message)}") from None
    except Unresolvable as error:
        reason = f"'{error.ref}' is not in the file, and nothing is fetched"
        raise _unusable(path, reason) from None
    except RecursionError:
        raise _unusable(path, "it refers to itself without end") from None
    except re.error as error:
        raise _unusable(path, f"a pattern is no regular expression: {error}") from None
    if errors:
        raise _broken(path, errors)


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
        return "is there, but must not be"
    wanted = requirement.type
    if wanted is not None and not _TYPES[wanted](value):
        return f"is {_type_of(value)}, not {_article(wanted)}"
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


def _type_of(value: Any) -> str:
    return _article(next(name for name, is_type in _TYPES.items() if is_type(value)))


def _article(name: str) -> str:
    if name == "null":
        return name
    return f"an {name}" if name[0] in "aio" else f"a {name}"


def _read_schema(path: str, workspace: Workspace) -> Any:
    with open_regular(workspace, path) as opened:
        data = opened.read(SCHEMA_LIMIT + 1)
    if len(data) > SCHEMA_LIMIT:
        raise _unusable(path, f"it has more than {show_size(SCHEMA_LIMIT)}")
    try:
        schema = json.loads(decode(data)[0].removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"it is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise _unusable(path, f"it is {_type_of(schema)}, not an object")
    return schema


def _unusable(path: str, reason: str) -> StepFault:
    return StepFault(f"output_schema '{path}' cannot be used: {reason}", {"output_schema": path})


def _broken(path: str, errors: list[ValidationError]) -> StepFault:
    shown = [_explain(error) for error in errors[:_MOST_ERRORS]]
    if len(errors) > _MOST_ERRORS:
        shown.append("… and more")
    return StepFault(
        f"the output breaks its schema '{path}': {shown[0]}", {"json_schema_errors": shown}
    )


def _explain(error: ValidationError) -> str:
    """Where and what is wrong, in JSON's words; the library's are Python's (True, None)."""
    wanted: Any = error.validator_value
    instance: Any = error.instance
    where = _pointer(error.absolute_path)
    match error.validator:
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return f"{where}: is {_type_of(instance)}, not {' or '.join(map(_article, names))}"
        case "enum":
            return f"{where}: is {show_json(instance)}, not one of {show_json(wanted, 200)}"
        case "const":
            return f"{where}: is {show_json(instance)}, not {show_json(wanted)}"
        case "required" if missing := [key for key in wanted if key not in instance]:
            # One error per missing key; its message begins with that key.
            key = next((k for k in missing if error.message.startswith(repr(k))), missing[0])
            return f"{_pointer([*error.absolute_path, key])}: is missing"
        case _:
            return f"{where}: {_clean(error.message)}"


def _pointer(path: Iterable[str | int]) -> str:
    parts = (str(part).replace("~", "~0").replace("/", "~1") for part in path)
    return sendable("".join(f"/{part}" for part in parts)) or "(top)"


def _clean(message: str) -> str:
    return clip(sendable(message), _LONGEST_MESSAGE)
