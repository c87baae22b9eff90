"""A line of a run's log as people read it at a terminal; the file is for programs, too."""

from __future__ import annotations

import re

from orchestrate.regex import regex
from orchestrate.state.times import local_time

# A machine's lines end in all fields of A §19.1; these come first.
_FIRST = " sessionId="
_FIELD = regex(r""" (\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\S*)""")
# The same in line after line, or counted in the words of those to which it matters.
_REPEATED = {"recipeId", "stepCount", "visitCount"}
_ABOUT_SESSION = "[session:"
_STAMP = regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z(?= )")


def shown_line(line: str) -> str:
    """The line with the reader's time, and without fields that say nothing more."""
    stamp = _STAMP.match(line)
    if stamp is not None:
        line = local_time(stamp[0]) + line[stamp.end() :]
    words, first, fields = line.partition(_FIRST)
    repeated = _REPEATED if _ABOUT_SESSION in words else _REPEATED | {"sessionId"}

    def unless_said(field: re.Match[str]) -> str:
        name, value = field.groups()
        return "" if name in repeated or value == "-" or value in words else field[0]

    return words + _FIELD.sub(unless_said, first + fields)
