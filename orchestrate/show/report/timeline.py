"""Draws when the steps of a run worked, rested and waited, as an SVG chart of bounded size.

A row is a step; the items of a loop share one, and have their own where they are few. Bars that
would lie within a pixel of each other become one, so the chart of a hundred thousand attempts is as
small as that of a hundred. Time in which no process worked on the run (parked, interrupted) is
squeezed, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from orchestrate.plan.visible import clip, visible
from orchestrate.record import record
from orchestrate.state.times import duration
from orchestrate.view.bars import Bar, merged
from orchestrate.view.history import Sitting
from orchestrate.view.step_totals import Tally

_WIDTH = 960
_NAMES = 260
_RIGHT = 16
_ROW = 20
_TOP = 36
_BREAK = 34
# Labels of gaps stand above those of the grid, so that they never touch.
_GAP_LABEL = 25
MOST_ROWS = 120
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400,
            28800, 86400, 172800, 604800, 2592000)  # fmt: skip
_HINTS = {"work": "worked", "fail": "failed", "rest": "rested before the next attempt",
          "wait": "waited", "cut": "was stopped or lost", "open": "has not ended",
          "span": "took in all"}  # fmt: skip
_STYLE = """\
.time { --ink: #1f2328; --quiet: #656d76; --line: #d0d7de; --work: #2da44e; --fail: #cf222e;
  --rest: #d4a72c; --wait: #8250df; --cut: #8c959f; --open: #0969da;
  font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) {
.time { --ink: #e6edf3; --quiet: #9198a1; --line: #30363d; --work: #3fb950; --fail: #f85149;
  --rest: #d29922; --wait: #a371f7; --cut: #6e7681; --open: #58a6ff; } }
@media print { .time { --ink: #000000; --quiet: #444444; --line: #bbbbbb; } }
.time text { fill: var(--ink); } .time .small { font-size: 11px; fill: var(--quiet); }
.time .grid { stroke: var(--line); stroke-width: 1; }
.time .gap { fill: var(--line); fill-opacity: 0.35; }
.time .work { fill: var(--work); } .time .fail { fill: var(--fail); }
.time .rest { fill: var(--rest); } .time .wait { fill: var(--wait); }
.time .cut { fill: var(--cut); } .time .open { fill: var(--open); }
.time .span { fill: none; stroke: var(--quiet); stroke-width: 1; }
"""


@record
class _Piece:
    """A stretch of time and where it lies; `is_gap`: no process worked on the run."""

    start: float
    end: float
    x: float
    width: float
    is_gap: bool


@record
class TimelineRow:
    """A step, or one item of a loop under it."""

    name: str
    bars: list[Bar]


def timeline_rows(tallies: Sequence[Tally], longest: int = 38) -> list[TimelineRow]:
    """What a timeline shows, with names of at most so many characters."""
    rows = []
    for tally in tallies:
        rows.append(TimelineRow(clip(visible(tally.path), longest), tally.bars))
        for item in sorted(tally.by_item.values(), key=lambda one: one.numbers):
            name = clip(visible(f"[{item.numbers[-1]}] {item.name}"), longest - 2)
            rows.append(TimelineRow(f"\u00a0\u00a0{name}", item.bars))
    return rows


def draw_timeline(rows: Sequence[TimelineRow], sittings: Sequence[Sitting], end: float) -> str:
    """The chart as an SVG document that can stand inside a page."""
    pieces = _pieces(sittings, end)
    return "\n".join(_lines(rows[:MOST_ROWS], pieces)) + "\n"


def _pieces(sittings: Sequence[Sitting], end: float) -> list[_Piece]:
    """The time axis; a gap is squeezed when it would take more room than it is worth."""
    room = _WIDTH - _NAMES - _RIGHT
    spans: list[tuple[float, float, bool]] = []
    for number, sitting in enumerate(sittings):
        stop = sitting.end if sitting.end is not None else end
        spans.append((sitting.start, max(stop, sitting.start), False))
        if number + 1 < len(sittings):
            spans.append((spans[-1][1], max(sittings[number + 1].start, spans[-1][1]), True))
    if spans and end > spans[-1][1]:
        spans.append((spans[-1][1], end, True))
    total = sum(stop - start for start, stop, _ in spans) or 1.0
    squeezed = [gap and (stop - start) / total * room > _BREAK for start, stop, gap in spans]
    left = room - _BREAK * sum(squeezed)
    scaled = sum(s[1] - s[0] for s, short in zip(spans, squeezed, strict=True) if not short) or 1.0
    pieces = []
    x: float = _NAMES
    for (start, stop, _), short in zip(spans, squeezed, strict=True):
        width = _BREAK if short else (stop - start) / scaled * left
        pieces.append(_Piece(start, stop, x, width, short))
        x += width
    return pieces


def _x(pieces: Sequence[_Piece], at: float) -> float:
    for piece in pieces:
        if at <= piece.end:
            part = (at - piece.start) / ((piece.end - piece.start) or 1.0)
            return piece.x + piece.width * min(max(part, 0.0), 1.0)
    return pieces[-1].x + pieces[-1].width if pieces else float(_NAMES)


def _lines(rows: Sequence[TimelineRow], pieces: Sequence[_Piece]) -> Iterator[str]:
    height = _TOP + _ROW * len(rows) + 10
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="time" role="img" width="{_WIDTH}" '
        f'height="{height}" viewBox="0 0 {_WIDTH} {height}">'
    )
    yield "<title>When the steps worked</title>"
    yield f"<style>{_STYLE}</style>"
    yield from _axis(pieces, height)
    for number, row in enumerate(rows):
        y = _TOP + _ROW * number
        yield f'<text x="4" y="{y + 14}">{escape(row.name)}</text>'
        yield from _bars(row.bars, pieces, y)
    yield "</svg>"


def _axis(pieces: Sequence[_Piece], height: int) -> Iterator[str]:
    begin = pieces[0].start if pieces else 0.0
    taken = float("-inf")
    for piece in pieces:
        if piece.is_gap:
            yield (
                f'<rect class="gap" x="{piece.x:.1f}" y="{_TOP - 6}" width="{piece.width:.1f}" '
                f'height="{height - _TOP}"><title>no work on the run for '
                f"{duration((piece.end - piece.start) * 1000)}</title></rect>"
            )
            yield (
                f'<text class="small" x="{piece.x + piece.width / 2:.1f}" y="{_TOP - _GAP_LABEL}" '
                f'text-anchor="middle">+{duration((piece.end - piece.start) * 1000)}</text>'
            )
            continue
        step = _tick(piece)
        count = int((piece.end - begin) // step)
        first = int(-(-(piece.start - begin) // step))
        for number in range(first, count + 1):
            x = _x((piece,), begin + number * step)
            yield f'<path class="grid" d="M{x:.1f} {_TOP - 6}V{height - 6}"/>'
            if x - taken > 56 and x < _WIDTH - 30:
                taken = x
                label = duration(number * step * 1000)
                yield f'<text class="small" x="{x:.1f}" y="{_TOP - 10}">{label}</text>'


def _tick(piece: _Piece) -> float:
    """Seconds between two lines, at least sixty pixels apart."""
    least = (piece.end - piece.start) / (piece.width or 1) * 60
    return next((step for step in _STEPS_S if step >= least), max(least, 1.0))


def _bars(bars: list[Bar], pieces: Sequence[_Piece], y: float) -> Iterator[str]:
    two_pixels = 2 * sum(p.end - p.start for p in pieces if not p.is_gap) / (_WIDTH - _NAMES)
    for bar in _in_order(merged(bars, two_pixels)):
        x = _x(pieces, bar.start)
        width = max(_x(pieces, bar.end) - x, 1.5)
        top, high = (y + 7, 6) if bar.kind == "span" else (y + 4, 12)
        hint = f"{_HINTS[bar.kind]}: {duration((bar.end - bar.start) * 1000)}"
        yield (
            f'<rect class="{bar.kind}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{high}">'
            f"<title>{escape(hint)}</title></rect>"
        )


def _in_order(bars: list[Bar]) -> list[Bar]:
    """What is rare and matters lies above what is common."""
    order = {"span": 0, "work": 1, "wait": 2, "rest": 3, "open": 4, "cut": 5, "fail": 6}
    return sorted(bars, key=lambda bar: (order[bar.kind], bar.start))
