"""Values of inputs: read from a text, and held against what the definition says of them."""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

from orchestrate.plan.settings import Input, InputType
from orchestrate.regex import regex

_WORDS: dict[InputType, str] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "object": "a mapping",
    "path": "a path",
    "command": "an argument list, or a text that can be split into one",
}
_NUMBERS = ("integer", "number")
# Python would also read 1_000, digits of other scripts and spaces around.
_INTEGER = regex(r"[+-]?[0-9]+\Z")
_NUMBER = regex(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_JSON = ("list", "object")
_MOST_DIGITS = 300


class Unfit(Exception):
    """A value that an input cannot have; the message goes on after the input's name."""


def read_text(one: Input, text: str) -> Any:
    """The value that a text on the command line, or a line typed at the terminal, stands for."""
    if one.type in _JSON:
        try:
            value = json.loads(text)
        except ValueError:
            shape = '["a", "b"]' if one.type == "list" else '{"key": "value"}'
            raise Unfit(f"is not JSON: write {_WORDS[one.type]} as in '{shape}'") from None
        return checked(one, value)
    if one.type == "boolean":
        if text.lower() not in ("true", "false"):
            raise Unfit("is neither true nor false")
        return checked(one, text.lower() == "true")
    if one.type in _NUMBERS:
        return checked(one, _number_of(one, text))
    if one.type == "command" and text.lstrip().startswith("["):
        return read_text_as_words(one, text)
    return checked(one, text)


def read_text_as_words(one: Input, text: str) -> Any:
    """An argument list is written as JSON on the command line."""
    try:
        return checked(one, json.loads(text))
    except ValueError:
        raise Unfit('is not JSON: write an argument list as in \'["make", "test"]\'') from None


def _number_of(one: Input, text: str) -> float:
    """The number; without a point and an exponent it is a whole one for both types."""
    if _INTEGER.match(text) and len(text) <= _MOST_DIGITS:
        return int(text)
    if one.type == "number" and _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    raise Unfit(f"is not {_WORDS[one.type]}")


def checked(one: Input, value: Any) -> Any:
    """The value as steps will read it, or `Unfit`; whether a path exists is not asked here.

    The caller matches the pattern, within a time limit.
    """
    if not _has_type(one.type, value):
        raise Unfit(f"is not {_WORDS[one.type]}")
    if one.type == "command" and isinstance(value, str):
        value = _split(value)
    if one.enum and value not in one.enum:
        shown = ", ".join(json.dumps(item, ensure_ascii=False) for item in one.enum)
        raise Unfit(f"is not one of {shown}")
    size = value if one.type in _NUMBERS else len(value) if hasattr(value, "__len__") else None
    what = "" if one.type in _NUMBERS else " long"
    if size is not None and one.minimum is not None and size < one.minimum:
        raise Unfit(f"is less than {one.minimum:g}{what}")
    if size is not None and one.maximum is not None and size > one.maximum:
        raise Unfit(f"is more than {one.maximum:g}{what}")
    return value


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise Unfit("has a quote that is not closed") from None


def _has_type(kind: InputType, value: Any) -> bool:
    match kind:
        case "string" | "path":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "command":
            words = value if isinstance(value, list) else [value]
            return all(isinstance(word, str) for word in words)
