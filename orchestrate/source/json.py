"""JSON text becomes located data: strict, iterative, with the same caps as YAML.

A parser of its own, because libyaml refuses JSON's surrogate pairs and json.loads has neither
positions nor an opinion on duplicate keys (docs/adr/0003).
"""

from __future__ import annotations

import re
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from orchestrate.regex import regex
from orchestrate.source.located import LocatedList, LocatedMap, column_of, line_of, pack
from orchestrate.source.reader import ReadFault
from orchestrate.source.scalars import resolve_plain
from orchestrate.source.yaml import MAX_DEPTH, Allowance, Report, too_many

_SPACE = regex(r"[ \t\r\n]*")
_NUMBER = regex(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_WORD = regex(r"[A-Za-z_]+")
_LINE_BREAK = "write \\n for a line break, or close the quote"
_SINGLE_QUOTED = regex(r"'[^'\n]*'")
_COMMENT = regex(r"//|/\*|#")
_MEANT = {"true": "true", "false": "false", "null": "null", "none": "null", "undefined": "null"}


def parse_json(text: str, source: int, report: Report, allowance: Allowance | None = None) -> Any:
    """The document's data. Duplicate keys go to `report`; anything else wrong is raised."""
    allowance = allowance or Allowance()
    reader = _JsonReader(text, source, report, allowance.left)
    try:
        return reader.read()
    finally:
        allowance.left -= reader.nodes


class _JsonReader:
    """A cursor over the text, with the open containers as its stack."""

    def __init__(self, text: str, source: int, report: Report, limit: int) -> None:
        self.text = text
        self.limit = limit
        self.source = source
        self.report = report
        self.position = 0
        self.line = 0
        self.line_start = 0
        self.nodes = 0

    def read(self) -> Any:
        self._skip_space()
        if self.position == len(self.text):
            raise ReadFault("E005", "is empty", "a recipe has steps")
        stack: list[tuple[Any, str | None, int]] = []
        value, mark = self._value()
        while True:
            if isinstance(value, LocatedMap | LocatedList) and not self._closed_at_once(value):
                if len(stack) >= MAX_DEPTH - 1:
                    self._fail(f"nests deeper than {MAX_DEPTH} levels", code="E011")
                stack.append((value, *self._start_item(value)))
                value, mark = self._value()
                continue
            while stack:
                container, key, key_mark = stack.pop()
                self._store(container, key, key_mark, value, mark)
                if self._another(container):
                    stack.append((container, *self._start_item(container)))
                    break
                value, mark = container, container.mark
            else:
                break
            value, mark = self._value()
        self._skip_space()
        if self.position != len(self.text):
            self._fail("the document has ended before this", "keep one recipe per file")
        return value

    def _closed_at_once(self, container: Any) -> bool:
        self._skip_space()
        closer = "}" if isinstance(container, LocatedMap) else "]"
        if self._peek() != closer:
            return False
        self.position += 1
        return True

    def _start_item(self, container: Any) -> tuple[str | None, int]:
        """In a mapping, read the key and its colon."""
        self._skip_space()
        if not isinstance(container, LocatedMap):
            return None, 0
        if self._peek() != '"':
            self._fail_at_end(container)
            self._fail_at_quote()
            word = _WORD.match(self.text, self.position)
            if word:
                hint = f'write "{word.group()}"'
                self._fail("a key stands in double quotes", hint, length=len(word.group()))
            self._fail("a key in double quotes is missing here")
        mark = self._mark()
        key = self._string()
        self._count()
        if key in container:
            message = f"the key '{key}' is already set in this mapping"
            length = self.position - self.line_start - column_of(mark)
            self.report(
                ReadFault(
                    "E007",
                    message,
                    "keep one of the two",
                    line_of(mark),
                    column_of(mark),
                    length,
                )
            )
        self._skip_space()
        if self._peek() != ":":
            self._fail("a colon is missing here")
        self.position += 1
        self._skip_space()
        return key, mark

    def _store(self, container: Any, key: str | None, key_mark: int, value: Any, mark: int) -> None:
        if key is None:
            container.put(value, mark)
        elif key not in container:
            container.put(key, value, key_mark, mark)

    def _another(self, container: Any) -> bool:
        self._skip_space()
        closer = "}" if isinstance(container, LocatedMap) else "]"
        character = self._peek()
        if character not in (",", closer):
            self._fail_at_end(container)
            self._fail(f"a comma or {closer} is missing before this")
        comma = self._mark()
        self.position += 1
        if character == closer:
            return False
        self._skip_space()
        if self._peek() == closer:
            self._fail(f"the comma before {closer} is one too many", "remove it", at=comma)
        return True

    def _value(self) -> tuple[Any, int]:
        self._skip_space()
        self._count()
        mark = self._mark()
        character = self._peek()
        if character == '"':
            return self._string(), mark
        if character == "{":
            self.position += 1
            return LocatedMap(mark), mark
        if character == "[":
            self.position += 1
            return LocatedList(mark), mark
        if match := _NUMBER.match(self.text, self.position):
            return self._number(match), mark
        word = _WORD.match(self.text, self.position)
        if word and word.group() in _WORDS:
            self.position = word.end()
            return _WORDS[word.group()], mark
        self._fail_at_quote()
        if word:
            meant = _MEANT.get(word.group().lower())
            self._fail(
                f"{word.group()} is not a value",
                f"write {meant}" if meant else "put text in double quotes",
                length=len(word.group()),
            )
        return self._fail("a value is missing here")

    def _number(self, match: re.Match[str]) -> Any:
        try:
            value = resolve_plain(match.group())
        except ReadFault as fault:
            self._fail(fault.message, code=fault.code)
        self.position = match.end()
        return value

    def _string(self) -> str:
        try:
            scanned: tuple[str, int] = scanstring(self.text, self.position + 1, True)
        except JSONDecodeError as error:
            if "control character" in error.msg and self.text[error.pos] in "\r\n":
                length = error.pos - self.position
                self._fail("a text cannot go on in the next line", _LINE_BREAK, length=length)
            if "Unterminated" in error.msg:
                self._fail("the quote that opens here is never closed", 'close it with "')
            self.position = error.pos
            self._fail(error.msg[:1].lower() + error.msg[1:])
        value, end = scanned
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                self._fail("half of a surrogate pair is not text")
        self.position = end
        return value

    def _skip_space(self) -> None:
        end = _SPACE.match(self.text, self.position).end()  # type: ignore[union-attr]
        lines = self.text.count("\n", self.position, end)
        if lines:
            self.line += lines
            self.line_start = self.text.rfind("\n", self.position, end) + 1
        self.position = end

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _mark(self) -> int:
        return pack(self.source, self.line, self.position - self.line_start)

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > self.limit:
            fault = too_many(written=True)
            self._fail(fault.message, code=fault.code, hint=fault.hint)

    def _fail_at_quote(self) -> None:
        """Python's and JavaScript's other quotes."""
        if self._peek() == "'":
            text = _SINGLE_QUOTED.match(self.text, self.position)
            length = len(text.group()) if text else 1
            self._fail("text stands in double quotes, not in single ones", length=length)

    def _fail_at_end(self, container: Any) -> None:
        if self.position == len(self.text):
            opener, closer = "{}" if isinstance(container, LocatedMap) else "[]"
            message = f"the {opener} that opens here is not closed: the file ends"
            self._fail(message, f"close it with {closer}", at=container.mark)

    def _fail(
        self,
        message: str,
        hint: str = "",
        *,
        code: str = "E006",
        at: int | None = None,
        length: int = 0,
    ) -> NoReturn:
        mark = self._mark() if at is None else at
        comment = _COMMENT.match(self.text, self.position)
        if comment and at is None:
            message, hint = "there are no comments in JSON", "remove it, or name the file .yaml"
            length = len(comment.group())
        shown = f"not valid JSON: {message}" if code == "E006" else message
        if code == "E006" and not length and (at is not None or self._peek() != '"'):
            length = 1
        raise ReadFault(code, shown, hint, line_of(mark), column_of(mark), length)
