"""Draws rows as lines of a terminal; rich knows what the terminal can show (ADR 0011)."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrate.plan.visible import clip, width_of
from orchestrate.record import replace
from orchestrate.show.live.picture import Mark, Row
from orchestrate.show.output import wants_colour

if TYPE_CHECKING:
    from rich.text import Text

_SIGNS: dict[Mark, str] = {
    "head": "▶", "todo": "○", "work": "●", "rest": "◌", "ask": "◆", "done": "✓", "failed": "✗",
    "skipped": "·", "item": "▸", "more": "…", "halted": "■",
    "ended": "◇",
}  # fmt: skip
_PLAIN_SIGNS: dict[Mark, str] = {
    "head": ">", "todo": ".", "work": "*", "rest": "~", "ask": "?", "done": "+", "failed": "x",
    "skipped": "-", "item": "-", "more": ":", "halted": "=",
    "ended": "!",
}  # fmt: skip
_SIGN_STYLES: dict[Mark, str] = {
    "head": "bold cyan", "todo": "dim", "work": "bold cyan", "rest": "yellow", "ask": "bold yellow",
    "done": "green", "failed": "bold red", "skipped": "dim", "item": "cyan", "more": "dim",
    "halted": "bold yellow", "ended": "bold yellow",
}  # fmt: skip
_NAME_STYLES: dict[Mark, str] = {
    "head": "bold", "todo": "dim", "work": "bold", "skipped": "dim", "more": "dim",
    "halted": "bold",
}  # fmt: skip
_FACT_STYLES = {"": "", "good": "green", "bad": "red", "weak": "dim", "warn": "yellow"}
_INDENT = 2
# Of the width, at most this part goes to the names.
_NAMES_PART = 0.45


class Pen:
    """Turns rows into lines; a row that is drawn again unchanged costs nothing."""

    def __init__(self, encoding: str) -> None:
        from rich.console import Console

        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="auto" if wants_colour(sys.stderr) else None,
            legacy_windows=False,
        )
        self._signs = _SIGNS if _can_encode(encoding) else _PLAIN_SIGNS
        self._drawn: dict[tuple[Row, int, int], str] = {}

    def lines(self, rows: Sequence[Row], width: int, height: int) -> list[str]:
        """The rows as lines that fit the width, the words of programs below or behind them."""
        column = self._name_column(rows, width)
        spoken = [row.words.count("\n") + 1 for row in rows if row.words]
        is_below = len(rows) + len(spoken) <= height
        if len(rows) + sum(spoken) > height:
            rows = [replace(row, words=row.words.rpartition("\n")[2]) for row in rows]
        drawn: dict[tuple[Row, int, int], str] = {}
        lines = []
        for row in rows:
            key = (row, width, column if is_below else -column)
            text = self._drawn.get(key)
            if text is None:
                text = self._draw(row, width, column, is_below=is_below)
            drawn[key] = text
            lines += text.split("\n")
        self._drawn = drawn
        return lines

    def _name_column(self, rows: Sequence[Row], width: int) -> int:
        """Where the facts begin, so that they stand below each other."""
        most = max(8, int(width * _NAMES_PART))
        ends = (_start_of(row) + width_of(row.name) for row in rows if _is_in_line(row))
        return min(most, max(ends, default=0))

    def _draw(self, row: Row, width: int, column: int, *, is_below: bool) -> str:
        from rich.text import Text

        start = _start_of(row)
        line = Text(" " * (start - 2))
        line.append(self._signs[row.mark], _SIGN_STYLES[row.mark])
        line.append(" ")
        room = max(1, (column if row.facts else width) - start)
        name = clip(row.name, room)
        line.append(name, _NAME_STYLES.get(row.mark, ""))
        if row.facts:
            line.append(" " * max(0, column - start - width_of(name)))
        for text, meaning in row.facts:
            line.append("  ")
            line.append(text, _FACT_STYLES[meaning])
        if row.words and not is_below:
            line.append("  ")
            line.append(row.words, "dim")
        drawn = self._rendered(line, width)
        if row.words and is_below:
            for words in row.words.split("\n"):
                below = Text(" " * start)
                below.append(words, "dim")
                drawn += "\n" + self._rendered(below, width)
        return drawn

    def _rendered(self, line: Text, width: int) -> str:
        """The line with the terminal's codes, cut where the screen ends."""
        plain = line.plain
        cut = clip(plain, width)
        if cut != plain:
            # `…` takes the place of what is cut, in the style of the last character.
            line.right_crop(len(plain) - len(cut) + 1)
            line.append("…", "dim")
        with self._console.capture() as captured:
            self._console.print(line, end="", soft_wrap=True)
        drawn = captured.get()
        return drawn if self._signs is _SIGNS else drawn.replace("…", "~")


def _start_of(row: Row) -> int:
    """The column of a row's name: the heading stands out, the rest is indented."""
    return 2 + row.depth * _INDENT


def _is_in_line(row: Row) -> bool:
    """Rows of steps stand in line also before they have facts, so that nothing jumps then."""
    return bool(row.facts) or row.mark in ("todo", "work", "halted")


def _can_encode(encoding: str) -> bool:
    try:
        "".join(_SIGNS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
