"""Characters that look like a space, or like nothing, and are neither to YAML."""

from __future__ import annotations

import re

from orchestrate.regex import regex

_NAMES = {
    "\u00a0": "a non-breaking space",
    "\u00ad": "a soft hyphen",
    "\u200b": "a zero-width space",
    "\u200c": "a zero-width character",
    "\u200d": "a zero-width character",
    "\u202f": "a narrow non-breaking space",
    "\u2060": "a zero-width character",
    "\u3000": "an ideographic space",
    "\ufeff": "a byte order mark",
}
_CLASS = "[\u00a0\u00ad\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]"
# Before a key, behind its colon or behind a dash: where only ordinary spaces count.
_IN_THE_WAY = regex(rf" *(?:- +)*-?(?:[\w.$-]+:)?({_CLASS})")
_AT_THE_EDGE = regex(rf"({_CLASS})|[\w.$-]+:({_CLASS})|.*({_CLASS})\Z", re.DOTALL)
_LONGEST = 2000

HINT = "replace it with an ordinary space, or remove it"


def in_the_way(line: str) -> int:
    """The column of an invisible character that keeps a line from being `key: value`, or -1."""
    return _where(_IN_THE_WAY.match(line))


def at_the_edge(text: str) -> str:
    """The invisible character that begins or ends a key or value, or follows its colon, or ''."""
    at = _where(_AT_THE_EDGE.match(text)) if len(text) <= _LONGEST else -1
    return text[at] if at >= 0 else ""


def name_of(character: str) -> str:
    """As in `a non-breaking space (U+00A0)`."""
    return f"{_NAMES.get(character, 'an unusual space')} (U+{ord(character):04X})"


def _where(found: re.Match[str] | None) -> int:
    return found.start(found.lastindex or 0) if found is not None else -1
