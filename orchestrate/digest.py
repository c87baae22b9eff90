"""Short digests of values: two that differ do not have the same one, and nothing else is told."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, BinaryIO

# 64 bits: a run has thousands of values to tell apart, not billions.
_BYTES = 8
_PIECE = 1 << 20


def digest_of(value: Any) -> str:
    """Of bytes and texts as they are, of all else as JSON with sorted keys."""
    if isinstance(value, bytes):
        return blake2b(value, digest_size=_BYTES).hexdigest()
    text = value
    if not isinstance(value, str):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest()


def digest_of_file(file: BinaryIO) -> str:
    """As of its bytes, of which only a piece is held at a time."""
    digest = blake2b(digest_size=_BYTES)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
