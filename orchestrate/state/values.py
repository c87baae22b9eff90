"""Large results are stored once, beside the state, and referred to by `{"$stored": FILE}`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orchestrate.digest import sha256_of
from orchestrate.errors import StateError, explain
from orchestrate.regex import regex
from orchestrate.state.durable import dump_json, parse_json, read_file, write_durably

FOLDER = "values"
MARK = "$stored"
# What is larger than this does not belong into a file that is written again and again.
INLINE_LIMIT = 16 * 1024
_NAME = regex(r"\Avalues/[0-9a-f]{64}\.json\Z")


def store_value(root: Path, value: Any) -> Any:
    """The value itself if it is small, else a reference to the file that has it.

    A value that looks like a reference is always stored, so that none can be forged.
    """
    data = dump_json(value)
    if len(data) <= INLINE_LIMIT and MARK not in _keys(value):
        return value
    name = f"{FOLDER}/{sha256_of(data)}.json"
    path = root / name
    if not os.path.lexists(path):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise explain("make", path.parent, error) from error
        write_durably(path, data)
    return {MARK: name, "bytes": len(data)}


def is_stored(value: Any) -> bool:
    return isinstance(value, dict) and MARK in value


def restore_value(root: Path, value: Any) -> Any:
    """The value with every reference replaced by what it refers to."""
    match value:
        case {"$stored": name, "bytes": _}:
            return _read(root, str(name))
        case dict():
            return {key: restore_value(root, item) for key, item in value.items()}
        case list():
            return [restore_value(root, item) for item in value]
        case _:
            return value


def _read(root: Path, name: str) -> Any:
    content = read_file(root / name) if _NAME.match(name) else None
    if content is None:
        raise StateError(f"a stored value of the run is missing: {name}", "was it deleted?")
    if sha256_of(content) != name[len(FOLDER) + 1 : -len(".json")]:
        raise StateError(f"a stored value of the run is damaged: {name}")
    return parse_json(content)


def _keys(value: Any) -> list[str]:
    """All keys anywhere in a value."""
    found: list[str] = []
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            found += one
            rest += one.values()
        elif isinstance(one, list):
            rest += one
    return found
