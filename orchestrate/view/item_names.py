"""What the items of a loop are called for people: by their value."""

from __future__ import annotations

import reprlib
from typing import Any

# An item that is an object is named by the first of these that it has.
_NAMING = ("name", "path", "file", "id", "title")


def item_name(item: Any) -> str:
    """The value, or what names it; of a whole document the beginning only."""
    if isinstance(item, dict):
        named = (item[key] for key in _NAMING if isinstance(item.get(key), str) and item[key])
        item = next(named, item)
    return item if isinstance(item, str) else reprlib.repr(item)
