"""What is left of a document once the values that broke its schema are taken out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.source.located import Hole, LocatedList, LocatedMap, PathKey
from orchestrate.source.schema import Violation


def prune(data: Any, violations: list[Violation]) -> Any:
    """The data without the values that broke their schema, so that later checks can go on."""
    doomed: dict[Any, Any] = {}
    for violation in violations:
        if violation.keyword in _HARMLESS:
            continue
        node = doomed
        for key in violation.path:
            node = node.setdefault(key, {})
        node[_DOOMED] = True
    return _without(data, doomed)


_DOOMED = object()
# What broke these is still of the right type. A misspelt name above all must stay: who refers to
# it is not mistaken as well.
_HARMLESS = frozenset(
    (
        "required",
        "x-since",
        "minItems",
        "minProperties",
        "pattern",
        "propertyNames",
        "maxLength",
    )
)


def _without(value: Any, doomed: dict[Any, Any]) -> Any:
    if isinstance(value, LocatedMap):
        result = LocatedMap(value.mark)
        lost = []
        for key, item, key_mark, item_mark in value.entries():
            if _is_doomed(item, doomed.get(key, {})):
                lost.append(key)
            else:
                result.put(key, _without(item, doomed.get(key, {})), key_mark, item_mark)
        result.lost = tuple(lost)
        return result
    if isinstance(value, LocatedList):
        items = LocatedList(value.mark)
        for index, item in enumerate(value):
            if not _is_doomed(item, doomed.get(index, {})):
                items.put(_without(item, doomed.get(index, {})), value.marks[index])
        return items
    return value


def _is_doomed(value: Any, doomed: dict[Any, Any]) -> bool:
    return _DOOMED in doomed or isinstance(value, Hole)


def walk_strings(
    value: Any, path: tuple[PathKey, ...] = ()
) -> Iterator[tuple[tuple[PathKey, ...], str]]:
    """Every string in free-form data, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from walk_strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk_strings(item, (*path, index))
