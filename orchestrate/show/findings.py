"""Draws diagnostics: the place, the message, the source line with a caret, and a hint."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.diagnostics import Diagnostic
from orchestrate.plan.visible import clip, plural, visible, visible_character, width_of

COLUMNS = 100
# A key can be a megabyte long, and messages quote keys.
_LONGEST_MESSAGE = 500
# So much of a line, on either side of the caret, can be of interest at all.
_NEAR = 2 * COLUMNS
_ENOUGH_OF_MARK = 20

_RED, _YELLOW, _CYAN, _BOLD, _OFF = "\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[1m", "\x1b[0m"


def draw(diagnostics: Iterable[Diagnostic], dropped: int = 0, *, colour: bool = False) -> str:
    """All findings, each ending in a newline; '' when there is none."""
    drawn = [draw_one(diagnostic, colour=colour) for diagnostic in diagnostics]
    if dropped:
        drawn.append(f"… and {plural(dropped, 'finding')} more, not shown")
    return "".join(f"{text}\n" for text in drawn)


def draw_one(diagnostic: Diagnostic, *, colour: bool = False) -> str:
    """One finding in one to four lines."""
    span = diagnostic.span
    tone = _RED if diagnostic.severity == "error" else _YELLOW
    place = f"{visible(span.file)}:{span.line}:{span.column}:"
    kind = f"{diagnostic.severity} {diagnostic.code}:"
    lines = [f"{_paint(place, _BOLD, colour)} {_paint(kind, tone, colour)} {sentence(diagnostic)}"]
    gutter = max(5, len(str(span.line)))
    if diagnostic.excerpt.strip():
        source, before, length = _window(
            diagnostic.excerpt, span.column - 1, span.length, COLUMNS - gutter - 3
        )
        carets = _paint("^" * length, tone, colour)
        lines.append(f"{span.line:>{gutter}} | {source}".rstrip())
        lines.append(f"{'':{gutter}} | {' ' * before}{carets}")
    for number, text in enumerate(diagnostic.hint.splitlines()):
        label = _paint("= hint:", _CYAN, colour) if number == 0 else "       "
        lines.append(f"{'':{gutter}} {label} {clip(visible(text), _LONGEST_MESSAGE)}".rstrip())
    return "\n".join(lines)


def sentence(diagnostic: Diagnostic) -> str:
    """The message with its near-miss suggestion, on one line and safe to show."""
    text = clip(visible(diagnostic.message), _LONGEST_MESSAGE)
    if diagnostic.suggestion:
        text += f" (did you mean '{clip(visible(diagnostic.suggestion), _LONGEST_MESSAGE)}'?)"
    return text


def count_line(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors, 1 warning`."""
    severities = [diagnostic.severity for diagnostic in diagnostics]
    counts = [
        plural(severities.count(severity), severity)
        for severity in ("error", "warning")
        if severity in severities
    ]
    return ", ".join(counts) or "nothing to report"


def _paint(text: str, tone: str, colour: bool) -> str:
    return f"{tone}{text}{_OFF}" if colour else text


def _window(line: str, column: int, length: int, room: int) -> tuple[str, int, int]:
    """The part of a line around the caret: its text, the columns before the caret, its width."""
    column = min(column, len(line))
    first = max(0, column - _NEAR)
    last = min(len(line), column + _NEAR)
    cells = [" " if c == "\t" else visible_character(c) for c in line[first:last]]
    at = column - first
    end = min(at + max(length, 1), len(cells))
    cut_left, cut_right = first > 0, last < len(line)
    widths = [width_of(cell) for cell in cells]
    # A caret behind the last character needs a column of its own.
    if sum(widths) + cut_left + max(cut_right, at >= len(cells)) > room:
        left, right = _choose(widths, at, end, room)
        cut_left, cut_right = cut_left or left > 0, cut_right or right < len(cells)
        cells, widths = cells[left:right], widths[left:right]
        at, end = at - left, min(end - left, right - left)
    text = ("…" if cut_left else "") + "".join(cells) + ("…" if cut_right else "")
    return text, sum(widths[:at]) + cut_left, max(sum(widths[at:end]), 1)


def _choose(widths: list[int], at: int, end: int, room: int) -> tuple[int, int]:
    """Which cells to keep, with a column for … at either end."""
    left, right, used = at, at, 2
    if sum(widths[:at]) + min(sum(widths[at:end]), _ENOUGH_OF_MARK) + 1 <= room:
        # The start of a line says most about it.
        left, right, used = 0, 0, 1
    while right < end and used + widths[right] <= room:
        used += widths[right]
        right += 1
    grown = True
    while grown:
        grown = False
        if left > 0 and used + widths[left - 1] <= room:
            left -= 1
            used += widths[left]
            grown = True
        if right < len(widths) and used + widths[right] <= room:
            used += widths[right]
            right += 1
            grown = True
    return left, right
