"""Keys of JSON objects stay apart when the secrets in them are masked: `***`, `*** (2)`, …"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

MASKED = "***"


def keep_apart(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; of two equal keys without a mask the last counts, as in JSON."""
    pairs = list(pairs)
    taken = {key for key, _ in pairs}
    found: dict[str, Any] = {}
    for key, value in pairs:
        name, number = key, 1
        if key in found and MASKED in key:
            while name in taken:
                number += 1
                name = f"{key} ({number})"
            taken.add(name)
        found[name] = value
    return found


def pairs_hook(text: str) -> Callable[[list[tuple[str, Any]]], dict[str, Any]] | None:
    """How `json.loads` is to make objects of this text; mostly in its own, quicker way."""
    return keep_apart if MASKED in text else None
