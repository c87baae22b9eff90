"""Digests: short ones of values, to tell them apart, and SHA-256 of files.

`hashlib` loads OpenSSL, which takes longer than all that a command has to digest. Python's own
implementations, which the standard library's `random` takes for the same reason, need not be loaded
like that; for what is large OpenSSL is worth it.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from orchestrate.json_writer import json_writer

try:
    from _blake2 import blake2b

    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:  # another Python
    from hashlib import blake2b, sha256

# 64 bits: a run has thousands of values to tell apart, not billions.
_BYTES = 8
_PIECE = 1 << 20
_LARGE = 1 << 18


def sha256_of(*pieces: bytes | memoryview) -> str:
    """Of the pieces as one, in hexadecimal digits."""
    digest = _sha256_for(sum(map(len, pieces)))
    for piece in pieces:
        digest.update(piece)
    text: str = digest.hexdigest()
    return text


def _sha256_for(size: int) -> Any:
    if size <= _LARGE:
        return sha256()
    import hashlib

    return hashlib.sha256()


_CANONICAL = json_writer(sort_keys=True, default=repr)


def digest_of(value: Any) -> str:
    """Of bytes and texts as they are, of all else as JSON with sorted keys."""
    if isinstance(value, bytes):
        return blake2b(value, digest_size=_BYTES).hexdigest()
    text = value
    if not isinstance(value, str):
        text = _CANONICAL(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest()


def digest_of_file(file: BinaryIO) -> str:
    """As of its bytes, of which only a piece is held at a time."""
    digest = blake2b(digest_size=_BYTES)
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
