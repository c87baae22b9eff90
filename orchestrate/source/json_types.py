"""JSON's own notions of type and equality: a whole float is an integer, true is not 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": _is_integer,
    "number": is_number,
}


def same(left: Any, right: Any) -> bool:
    """Equality as JSON sees it: 1 equals 1.0, but true does not equal 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(v, right[k]) for k, v in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> Hashable:
    """Something hashable that two values share if and only if they are the same."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return ("map", frozenset((key, identity(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(identity, value)))
    scalar: Hashable = value
    return scalar
