"""The seal of a file that only orchestrate writes: a checksum over all of it, in its last line."""

from __future__ import annotations

from orchestrate.digest import sha256_of
from orchestrate.regex import regex

_SEAL = regex(rb',\n  "checksum": "sha256:([0-9a-f]{64})"\n\}\n\Z')

_LENGTH = len(b',\n  "checksum": "sha256:"\n}\n') + 64


def seal_for(*pieces: bytes) -> bytes:
    """What ends a JSON object of which these pieces are everything but the closing brace."""
    return b',\n  "checksum": "sha256:%b"\n}\n' % sha256_of(*pieces).encode("ascii")


def verify_seal(content: bytes) -> None:
    """A `ValueError` says what is wrong with a file that is not as it was written."""
    found = _SEAL.search(content, max(len(content) - _LENGTH, 0))
    if found is None:
        raise ValueError("it is not a complete file")
    with memoryview(content) as view:
        digest = sha256_of(view[: found.start()])
    if digest.encode("ascii") != found[1]:
        raise ValueError("its checksum is wrong: it was changed or damaged")
