"""What stands behind `$include`: its targets and pointers, and what to say when they are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orchestrate.diagnostics import closest, closest_file
from orchestrate.regex import regex
from orchestrate.source.located import LocatedList, LocatedMap, Mark

KEYWORDS = ("$include", "$ref")
_INDEX = regex(r"(?:0|[1-9][0-9]{0,8})\Z")


class IncludeFault(Exception):
    """An include that cannot be followed."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def targets_of(value: LocatedMap, word: str) -> list[tuple[str, Mark]]:
    if all(keyword in value for keyword in KEYWORDS):
        raise IncludeFault("E024", "$include and $ref mean the same", "use one of them")
    named = value[word]
    mark = value.value_mark(word)
    if isinstance(named, str) and named:
        return [(named, mark)]
    if isinstance(named, LocatedList) and named and all(isinstance(t, str) and t for t in named):
        return list(zip(named, named.marks, strict=True))
    raise IncludeFault(
        "E024", f"{word} takes a path or a list of paths", f'write {word}: "shared/steps.yaml"'
    )


def is_index(token: str) -> bool:
    """RFC 6901: ASCII digits without a leading zero, and no more of them than a list needs."""
    return _INDEX.match(token) is not None


def kind_of(value: Any) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    if isinstance(value, list):
        return "a list"
    return names.get(type(value), "text" if isinstance(value, str) else "empty")


def offer_names(value: Any, wanted: str) -> str:
    if isinstance(value, LocatedMap) and value:
        near = closest(wanted, value)
        return f"did you mean '{near}'?" if near else f"there is: {', '.join(list(value)[:8])}"
    return ""


def similar_file(path: Path) -> str:
    try:
        names = os.listdir(path.parent)[:1000]
    except OSError:
        return ""
    return closest_file(path.name, names)
