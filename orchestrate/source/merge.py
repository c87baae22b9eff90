"""JSON Merge Patch (RFC 7396) on located data: every value keeps the mark it was written at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.source.located import LocatedMap, Mark, located_map

Idle = Callable[[str, Mark], None]


def merge_patch(target: Any, patch: Any, idle: Idle | None = None) -> Any:
    """RFC 7396: mappings merge, null removes, everything else replaces.

    `idle` is called for each null that removes nothing, with its key and the key's mark.
    """
    if not isinstance(patch, LocatedMap):
        return patch
    base = target if isinstance(target, LocatedMap) else LocatedMap(patch.mark)
    entries = {entry[0]: entry for entry in base.entries()}
    for key, value, key_mark, value_mark in patch.entries():
        if value is None:
            if entries.pop(key, None) is None and idle is not None:
                idle(key, key_mark)
        elif isinstance(value, LocatedMap):
            merged = merge_patch(entries[key][1] if key in entries else None, value, idle)
            entries[key] = (key, merged, key_mark, value_mark)
        else:
            entries[key] = (key, value, key_mark, value_mark)
    return located_map(patch.mark, entries.values())
