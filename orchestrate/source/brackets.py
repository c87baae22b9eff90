"""Which brackets are open at a place, as far as the text above it tells.

Parsers know, but do not say: their marks name the value, and not what surrounds it. These are
good guesses, for the width of a caret and for finding the bracket that was not closed.
"""

from __future__ import annotations

import re

from orchestrate.regex import regex

# Quotes count only where a value can begin: the apostrophe in `don't` opens nothing.
_TOKENS = regex(
    r"""
    (?: (?<= [\s\[{,:] ) | ^ ) (?: "(?:[^"\\]++|\\.)*+" | '(?:[^']++|'')*+' )
    | (?: (?<= \s ) | ^ ) \#.*
    | [\[\]{}]
    """,
    re.VERBOSE,
)
_OPEN_QUOTE = regex(r"""(?:(?<=[\s\[{,:])|^)["']""")
_FLOW_DOCUMENT = regex(r"(?:\s++|#[^\n]*+\n){0,50}[\[{]")
# No list is meant to go on for longer, and a crowd of mistakes asks as often.
_FAR = 20_000
# Deep enough that nothing on one line closes it all.
_ALWAYS = 1 << 20


def depth_at_line(text: str, start: int) -> int:
    """How many brackets are open where the line that starts at this offset begins."""
    if _FLOW_DOCUMENT.match(text):
        return _ALWAYS
    depth, first, stop = 0, text[start : start + 200], start - _FAR
    lower, top = first.lstrip(), first
    while start > max(stop, 0):
        line, start = _line_before(text, start, stop)
        code = _code(line).strip()
        if code:
            # Lists of several lines have commas at the ends of these; other lines do not.
            if depth >= 0 and code[-1] not in ",[{" and lower[:1] not in (",", "]", "}"):
                break
            depth += balance(line)
            lower, top = code, line
    # What a key holds is indented more than the key: otherwise this was prose with a bracket.
    return max(depth, 0) if _indent(top) < _indent(first) else 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def balance(line: str) -> int:
    """How many more brackets this part of a line opens than it closes."""
    return sum(1 if bracket in "[{" else -1 for _, bracket in _brackets(line))


def open_bracket(text: str, end: int) -> int:
    """The offset of the innermost bracket that is open at an offset inside brackets, or -1."""
    depth, stop, start = 0, end - _FAR, end + 1
    while start > max(stop, 0):
        line, start = _line_before(text, start, stop)
        for position, bracket in reversed(_brackets(line)):
            if bracket in "]}":
                depth += 1
            elif depth:
                depth -= 1
            else:
                return start + position
    return -1


def open_quote(line: str) -> int:
    """The column of a quote that opens a text and is not closed on its line, or -1."""
    end = 0
    for token in _TOKENS.finditer(line):
        found = _OPEN_QUOTE.search(line, end, token.start())
        if found is not None:
            return found.start()
        if token[0].startswith("#"):
            return -1
        end = token.end()
    found = _OPEN_QUOTE.search(line, end)
    return found.start() if found is not None else -1


def _line_before(text: str, start: int, stop: int) -> tuple[str, int]:
    """The line that ends right before an offset, and where it starts."""
    end = start - 1
    begin = max(text.rfind("\n", 0, end) + 1, stop, 0)
    return text[begin:end], begin


def _brackets(line: str) -> list[tuple[int, str]]:
    return [(token.start(), token[0]) for token in _TOKENS.finditer(line) if token[0] in "[]{}"]


def _code(line: str) -> str:
    """The line without its comment."""
    for token in _TOKENS.finditer(line):
        if token[0].startswith("#"):
            return line[: token.start()]
    return line
