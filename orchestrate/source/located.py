"""Plain data that remembers where it was written.

Every mapping and list read from a file is a `LocatedMap` or `LocatedList`: an ordinary dict or
list that also carries a *mark* for each key and value. A mark packs source, line and column into
one integer, so that positions cost eight bytes a value and survive `$include`, which mixes
values of several files in one mapping.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from orchestrate.diagnostics import Diagnostic, Span
from orchestrate.record import field, mutable_record
from orchestrate.regex import regex
from orchestrate.source.brackets import balance, depth_at_line

Mark = int
PathKey = str | int

_LINE_SHIFT = 24
_SOURCE_SHIFT = 48
_FIELD = (1 << 24) - 1
_FEW = 32
# Offsets are found by counting line ends chunk by chunk.
_CHUNK = 512
# The place of a snippet that was written so often before is not worth the search.
_MOST_REPEATS = 200
_LONGEST_SEARCH = 100_000
# No caret needs to be longer.
_LONGEST_TOKEN = 2000
_QUOTED = regex(r""" "(?:[^"\\]++|\\.)*+" | '(?:[^']++|'')*+' """, re.VERBOSE)


def pack(source: int, line: int, column: int) -> Mark:
    """A mark from zero-based line and column (the size cap keeps both under 2**24)."""
    return source << _SOURCE_SHIFT | line << _LINE_SHIFT | column


def line_of(mark: Mark) -> int:
    """The zero-based line of a mark."""
    return mark >> _LINE_SHIFT & _FIELD


def column_of(mark: Mark) -> int:
    """The zero-based column of a mark."""
    return mark & _FIELD


class LocatedMap(dict[str, Any]):
    """A mapping; `marks` holds key mark, value mark, key mark, … in insertion order.

    Never delete or reorder keys in place: build a new map with `located_map`. `lost` names the
    keys that stood here too but broke the schema (see `prune`), so that none is called missing.
    """

    __slots__ = ("_positions", "lost", "mark", "marks")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.marks = array("q")
        self.lost: tuple[str, ...] = ()
        self._positions: dict[str, int] | None = None

    def put(self, key: str, value: Any, key_mark: Mark, value_mark: Mark) -> None:
        """Append a new key (the caller has made sure that it is new)."""
        self[key] = value
        self.marks.append(key_mark)
        self.marks.append(value_mark)

    def key_mark(self, key: str) -> Mark:
        return self._mark(key, 0)

    def value_mark(self, key: str) -> Mark:
        return self._mark(key, 1)

    def _mark(self, key: str, which: int) -> Mark:
        if key not in self:
            return self.mark
        if len(self) <= _FEW:
            return self.marks[2 * list(self).index(key) + which]
        # A hostile mapping has as many mistakes as keys: walking it for each would never end.
        if self._positions is None or len(self._positions) != len(self):
            self._positions = {name: position for position, name in enumerate(self)}
        return self.marks[2 * self._positions[key] + which]

    def entries(self) -> Iterable[tuple[str, Any, Mark, Mark]]:
        """Every (key, value, key mark, value mark)."""
        marks = self.marks
        for position, (key, value) in enumerate(self.items()):
            yield key, value, marks[2 * position], marks[2 * position + 1]


class LocatedList(list[Any]):
    """A list; `marks[i]` is where item i was written."""

    __slots__ = ("mark", "marks")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.marks = array("q")

    def put(self, value: Any, value_mark: Mark) -> None:
        self.append(value)
        self.marks.append(value_mark)


def located_map(mark: Mark, entries: Iterable[tuple[str, Any, Mark, Mark]]) -> LocatedMap:
    """A new map of the given entries."""
    result = LocatedMap(mark)
    for key, value, key_mark, value_mark in entries:
        result.put(key, value, key_mark, value_mark)
    return result


def as_map(value: Any) -> LocatedMap:
    """The mapping, or an empty one where the document has none."""
    return value if isinstance(value, LocatedMap) else LocatedMap(0)


def value_mark(container: LocatedMap | LocatedList, key: PathKey) -> Mark:
    """Where the value under a key or index was written."""
    if isinstance(container, LocatedMap):
        return container.value_mark(str(key))
    index = int(key)
    return container.marks[index] if 0 <= index < len(container.marks) else container.mark


def mark_at(root: Any, path: Sequence[PathKey], *, on_key: bool = False) -> Mark:
    """The mark of the value (or, with `on_key`, of the key) at a path into located data."""
    mark: Mark = root.mark if isinstance(root, LocatedMap | LocatedList) else 0
    current = root
    for depth, key in enumerate(path):
        if not isinstance(current, LocatedMap | LocatedList):
            return mark
        last = depth == len(path) - 1
        if last and on_key and isinstance(current, LocatedMap):
            return current.key_mark(str(key))
        mark = value_mark(current, key)
        try:
            current = current[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return mark
    return mark


@mutable_record
class Source:
    """One file that took part in a compilation."""

    display: str
    path: Path
    text: str
    _breaks: list[int] = field(default_factory=list)
    _last_line: tuple[int, str] = (-1, "")
    _last_depth: tuple[int, int] = (-1, 0)

    def breaks(self) -> list[int]:
        """How many line ends lie before each chunk of the text (a table of all lines would take
        more memory than the limit allows, if the file is nothing but line ends)."""
        if not self._breaks:
            text = self.text
            counts = (text.count("\n", at, at + _CHUNK) for at in range(0, len(text), _CHUNK))
            self._breaks = [0, *accumulate(counts)]
        return self._breaks

    def line(self, number: int) -> str:
        """The zero-based line's text, without its line end."""
        # Mistakes come in crowds, and a line can be megabytes long: keep one copy of it.
        if self._last_line[0] != number:
            start = self.offset(number, 0)
            end = self.text.find("\n", start)
            text = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
            self._last_line = (number, text)
        return self._last_line[1]

    def token_length(self, line: int, column: int) -> int:
        """How many characters the token at a zero-based line and column has."""
        if self._last_depth[0] != line:
            self._last_depth = line, depth_at_line(self.text, self.offset(line, 0))
        return token_length(self.line(line), column, self._last_depth[1])

    def offset(self, line: int, column: int) -> int:
        """The character offset of a zero-based line and column."""
        breaks = self.breaks()
        if line <= 0:
            return column
        if line > breaks[-1]:
            return len(self.text) + column
        chunk = bisect_left(breaks, line) - 1
        position = chunk * _CHUNK - 1
        for _ in range(line - breaks[chunk]):
            position = self.text.find("\n", position + 1)
        return position + 1 + column

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """The zero-based line and column of a character offset."""
        breaks = self.breaks()
        chunk = min(max(offset, 0) // _CHUNK, len(breaks) - 1)
        line = breaks[chunk] + self.text.count("\n", chunk * _CHUNK, offset)
        return line, offset - (self.text.rfind("\n", 0, offset) + 1)


@mutable_record
class Sources:
    """The files of one compilation, in the order they were first read."""

    files: list[Source] = field(default_factory=list)
    _by_display: dict[str, Source] = field(default_factory=dict)
    _last_span: tuple[Mark, Span] = (-1, Span("", 1, 1))

    def register(self, source: Source) -> int:
        self.files.append(source)
        self._by_display.setdefault(source.display, source)
        return len(self.files) - 1

    def of(self, mark: Mark) -> Source:
        return self.files[mark >> _SOURCE_SHIFT]

    def place(self, mark: Mark) -> tuple[Source, int, int]:
        """Source, zero-based line, zero-based column."""
        return self.of(mark), mark >> _LINE_SHIFT & _FIELD, mark & _FIELD

    def authored(self, mark: Mark) -> str:
        """The token as it was typed, e.g. `1.10` where the data says 1.1."""
        source, line, column = self.place(mark)
        text = source.line(line)
        return text[column : column + source.token_length(line, column)]

    def comment_after(self, mark: Mark) -> str:
        """The comment behind a plain value on its line, `#` included, or ''."""
        source, line, column = self.place(mark)
        text = source.line(line)
        if text[column : column + 1] in ("", '"', "'", "|", ">", "{", "[", "&", "*", "!"):
            return ""
        rest = text[column + source.token_length(line, column) :].lstrip()
        return rest if rest.startswith("#") else ""

    def span_of(self, mark: Mark, value: str) -> Span:
        """The span of a text whose value is known, which saves finding out where it ends."""
        source, line, column = self.place(mark)
        text = source.line(line)
        if text.startswith(value, column):
            return Span(source.display, line + 1, column + 1, len(value))
        if text[column : column + 1] in ('"', "'") and text.startswith(value, column + 1):
            return Span(source.display, line + 1, column + 1, len(value) + 2)
        return self.span(mark)

    def span(self, mark: Mark) -> Span:
        # One value can hold thousands of mistakes.
        if self._last_span[0] != mark:
            source, line, column = self.place(mark)
            length = source.token_length(line, column)
            self._last_span = mark, Span(source.display, line + 1, column + 1, length)
        return self._last_span[1]

    def span_inside(self, mark: Mark, value: str, start: int, end: int) -> Span:
        """The place of `value[start:end]`, where the value was written at `mark`.

        Quoting and folding may have changed the text, so we look for the snippet itself: its
        n-th occurrence in the value is its n-th occurrence in the file from the mark on.
        """
        snippet = value[start:end].split("\n", 1)[0]
        source, line, column = self.place(mark)
        if not snippet or start > _LONGEST_SEARCH:
            return self.span(mark)
        before = _count_overlapping(value, snippet, start)
        if before > _MOST_REPEATS:
            return self.span(mark)
        position = source.offset(line, column) - 1
        for _ in range(before + 1):
            position = source.text.find(snippet, position + 1)
            if position < 0:
                return self.span(mark)
        line, column = source.line_and_column(position)
        return Span(source.display, line + 1, column + 1, len(snippet))

    def first_behind(self, span: Span, snippet: str) -> Span:
        """Where a text stands next, from a place on; the place itself if it does not."""
        source = self._by_display.get(span.file)
        if source is None:
            return span
        found = source.text.find(snippet, source.offset(span.line - 1, span.column - 1))
        if found < 0:
            return span
        line, column = source.line_and_column(found)
        return Span(span.file, line + 1, column + 1, len(snippet))

    def diagnostic(self, code: str, message: str, span: Span, **more: str) -> Diagnostic:
        """A diagnostic with its source line attached."""
        source = self._by_display.get(span.file)
        excerpt = source.line(span.line - 1) if source is not None else ""
        return Diagnostic(code, message, span, excerpt=excerpt, **more)


def _count_overlapping(text: str, snippet: str, end: int) -> int:
    count, position = 0, text.find(snippet)
    while 0 <= position < end and count <= _MOST_REPEATS:
        count, position = count + 1, text.find(snippet, position + 1)
    return count


def token_length(line: str, column: int, depth: int = 0) -> int:
    """How many characters the token at a column has: what a caret line should underline.

    `depth` says how many brackets are still open from the lines above.
    """
    rest = line[column : column + _LONGEST_TOKEN]
    if not rest:
        return 1
    if rest[0] in "\"'":
        return _quoted_length(rest)
    if rest[0] in "[{|>&*!":
        return 1
    inside_flow = _inside_flow(line, column, depth)
    for position, character in enumerate(rest):
        before_space = rest[position + 1 : position + 2] in ("", " ", "\t")
        if character == ":" and before_space:
            return max(position, 1)
        if character in ",]}" and inside_flow:
            return max(len(rest[:position].rstrip()), 1)
        if character == "#" and position and rest[position - 1] in " \t":
            return max(len(rest[:position].rstrip()), 1)
    return max(len(rest.rstrip()), 1)


def _quoted_length(rest: str) -> int:
    closed = _QUOTED.match(rest)
    return closed.end() if closed else max(len(rest.rstrip()), 1)


def _inside_flow(line: str, column: int, depth: int) -> bool:
    """A good guess, for the caret's width only: is there an open bracket before the column?"""
    return depth + balance(line[max(0, column - _LONGEST_TOKEN) : column]) > 0


class Hole:
    """Stands where a value could not be had (a broken include): reported once, then left alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "HOLE"


HOLE = Hole()
