"""Bytes become text and text becomes bytes, whatever is in them."""

from __future__ import annotations

import codecs
import json

from orchestrate.regex import regex

# Half a surrogate pair is not a character and cannot be sent to a program. U+DC80 to U+DCFF stay:
# they stand for the bytes of a file name that is not UTF-8, and become those bytes again.
_NO_CHARACTER = regex("[\ud800-\udc7f\udd00-\udfff]")


def sendable(text: str) -> str:
    """The text without half characters: `encode` can turn it into bytes."""
    return _NO_CHARACTER.sub("\ufffd", text)


def encode(text: str) -> bytes:
    """The bytes of a text; file names that are not UTF-8 become what they were."""
    return sendable(text).encode("utf-8", "surrogateescape")


def decode(data: bytes, *, is_cut: bool = False) -> tuple[str, int]:
    """The text, and how many bytes it took; invalid UTF-8 becomes replacement characters.

    When the bytes were cut off somewhere, a character that the cut went through is left out.
    """
    return codecs.utf_8_decode(data, "replace", not is_cut)


def decode_wholly(data: bytes, *, is_cut: bool = False) -> tuple[str, int, bool]:
    """As `decode`, and whether the text is the bytes: nothing in it had to be replaced."""
    text, size = decode(data, is_cut=is_cut)
    return text, size, text.encode("utf-8") == data[:size]


def clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def show_json(value: object, most: int = 80) -> str:
    """A value in a message: as JSON, and not all of a long one."""
    return clip(sendable(json.dumps(value, ensure_ascii=False)), most)


def show_name(path: str) -> str:
    """A path in a prompt; one with line breaks or broken characters is quoted as JSON does."""
    return path if path.isprintable() else json.dumps(path)
