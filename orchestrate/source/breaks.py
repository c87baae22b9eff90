"""Line ends: editors, parsers and we must count the same lines, or every position is wrong.

Both parsers follow YAML 1.1, where NEL, LS and PS end a line. In YAML 1.2, as in editors, they are
text; so they are shielded while a text is parsed. A lone CR ends a line for all programs but us.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.regex import regex

_NOT_ENDS = "\x85\u2028\u2029"
_LONE_RETURN = regex(r"\r(?!\n)")
_PRIVATE_USE = range(0xE000, 0xF900)

Reader = Callable[[], Any]
Table = dict[int, str]


def unify_line_ends(text: str) -> str:
    """The text with LF for each CR that stands alone; columns and lengths stay."""
    if text.count("\r") == text.count("\r\n"):
        return text
    return _LONE_RETURN.sub("\n", text)


def shield(text: str) -> tuple[str, Table]:
    """The text with stand-ins for what is not a line end, and the table that brings it back."""
    found = [character for character in _NOT_ENDS if character in text]
    if not found:
        return text, {}
    spare = [code for code in _PRIVATE_USE if chr(code) not in text][: len(found)]
    if len(spare) < len(found):
        return text, {}  # a text that uses them all will have to do with wrong positions
    there = {ord(character): chr(code) for character, code in zip(found, spare, strict=True)}
    return text.translate(there), dict(zip(spare, found, strict=True))


def unshielded(next_event: Reader, table: Table) -> Reader:
    """The events of a shielded text, with the values as they were written."""
    if not table:
        return next_event

    def read() -> Any:
        event = next_event()
        value = getattr(event, "value", None)
        if isinstance(value, str):
            event.value = value.translate(table)
        return event

    return read
