"""Reads the JSON that clients send, which has to be text that we can write and hand on."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """`ValueError` for what is no JSON, is nested too deeply, or has half of a character.

    JSON can spell one half of a surrogate pair. No file, argument or answer can hold that.
    """
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found
