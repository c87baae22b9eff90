"""Writes a drawing as SVG: without scripts, for light and dark, on a screen or on paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from orchestrate.show.draw.drawing import TIMES, Drawing, look_of
from orchestrate.show.draw.layout import Box, LoopBox, Picture, Wire, lay_out

_BEND = 6.0
_KINDS = {
    "start": "",
    "step": "agent",
    "run": "command",
    "wait": "wait",
    "gate": "approval",
    "loop": "loop",
    "call": "recipe",
    "finish": "",
    "abort": "",
}
_STYLE = """\
.plan { --ink: #1f2328; --quiet: #656d76; --line: #8c959f; --paper: #ffffff; --box: #f6f8fa;
  --good: #1a7f37; --good-paper: #dafbe1; --bad: #cf222e; --bad-paper: #ffebe9;
  --busy: #0969da; --busy-paper: #ddf4ff; --wait: #9a6700; --wait-paper: #fff8c5;
  font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) {
.plan { --ink: #e6edf3; --quiet: #9198a1; --line: #6e7681; --paper: #0d1117; --box: #161b22;
  --good: #3fb950; --good-paper: #12261e; --bad: #f85149; --bad-paper: #2d1315;
  --busy: #58a6ff; --busy-paper: #121d2f; --wait: #d29922; --wait-paper: #272115; } }
@media print {
.plan { --ink: #000000; --quiet: #444444; --line: #777777; --paper: #ffffff; --box: #ffffff;
  --good: #1a7f37; --good-paper: #ffffff; --bad: #cf222e; --bad-paper: #ffffff;
  --busy: #0969da; --busy-paper: #ffffff; --wait: #9a6700; --wait-paper: #ffffff; } }
.plan .ground { fill: var(--paper); }
.plan text { fill: var(--ink); }
.plan .small { font-size: 11px; fill: var(--quiet); }
.plan .badge { font-size: 12px; font-weight: 600; fill: var(--good); }
.plan .box { fill: var(--box); stroke: var(--line); }
.plan .frame { fill: none; stroke: var(--line); stroke-dasharray: 2 3; }
.plan .visited .box { fill: var(--good-paper); stroke: var(--good); }
.plan .working .box { fill: var(--busy-paper); stroke: var(--busy); stroke-width: 2.5; }
.plan .waiting .box { fill: var(--wait-paper); stroke: var(--wait); stroke-width: 2.5; }
.plan .failed .box { fill: var(--bad-paper); stroke: var(--bad); stroke-width: 2.5; }
.plan .unvisited .box { fill: none; stroke-dasharray: 4 3; }
.plan .unvisited text { fill: var(--quiet); }
.plan .wire { fill: none; stroke: var(--line); stroke-width: 1.2; }
.plan .dotted { stroke-dasharray: 3 3; }
.plan .thick { stroke-width: 2.4; }
.plan .taken { stroke: var(--good); stroke-width: 2.4; }
.plan .label { font-size: 11px; fill: var(--quiet); paint-order: stroke; stroke: var(--paper);
  stroke-width: 3px; }
.plan .was-taken { fill: var(--ink); font-weight: 600; }
.plan .tip { fill: var(--line); } .plan .tip-taken { fill: var(--good); }
"""


def render_svg(drawing: Drawing, title: str) -> str:
    """The drawing as one SVG document, which can also stand inside a page."""
    picture = lay_out(drawing)
    return "\n".join(_lines(picture, title)) + "\n"


def _lines(picture: Picture, title: str) -> Iterator[str]:
    width, height = _n(picture.width), _n(picture.height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plan" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f"<style>{_STYLE}</style>"
    yield "<defs>"
    for name in ("tip", "tip-taken"):
        yield (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path class="{name}" d="M0 0L8 4L0 8z"/></marker>'
        )
    yield "</defs>"
    yield f'<rect class="ground" width="{width}" height="{height}"/>'
    for frame in picture.frames:
        yield _frame(frame)
    # What was taken lies above what was not, and labels above all wires.
    for wire in sorted(picture.wires, key=lambda one: bool(one.taken)):
        yield _wire(wire)
    for box in picture.boxes:
        yield from _box(box)
    for wire in picture.wires:
        if wire.label:
            yield _label(wire)
    yield "</svg>"


def _frame(frame: LoopBox) -> str:
    return (
        f'<rect class="frame" x="{_n(frame.x)}" y="{_n(frame.y)}" width="{_n(frame.width)}" '
        f'height="{_n(frame.height)}" rx="8"/>'
        f'<text class="small" x="{_n(frame.x + 10)}" y="{_n(frame.y + 16)}">'
        f"{escape(frame.text)}</text>"
    )


def _wire(wire: Wire) -> str:
    classes = ["wire", *([wire.line] if wire.line != "solid" else [])]
    tip = "tip"
    if wire.taken:
        classes.append("taken")
        tip = "tip-taken"
    path = _path(wire.points)
    return f'<path class="{" ".join(classes)}" d="{path}" marker-end="url(#{tip})"/>'


def _label(wire: Wire) -> str:
    look = "label was-taken" if wire.taken else "label"
    anchor = ' text-anchor="end"' if wire.anchor == "end" else ""
    return (
        f'<text class="{look}" x="{_n(wire.label_x)}" y="{_n(wire.label_y)}"{anchor}>'
        f"{escape(wire.label)}</text>"
    )


def _box(box: Box) -> Iterator[str]:
    vertex = box.vertex
    look = look_of(vertex)
    is_end = vertex.shape in ("finish", "abort")
    if look == "visited" and vertex.shape == "abort":
        look = "failed"
    yield f'<g class="{look}">' if look else "<g>"
    corner = {"start": 13, "finish": 10, "abort": 2, "gate": 2}.get(vertex.shape, 6)
    yield (
        f'<rect class="box" x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" '
        f'height="{_n(box.height)}" rx="{corner}"/>'
    )
    middle = box.y + {"finish": 14, "abort": 14, "start": 17}.get(vertex.shape, 24)
    size = ' class="small"' if is_end else ""
    yield f'<text{size} x="{_n(box.x + 10)}" y="{_n(middle)}">{escape(box.text)}</text>'
    right = _n(box.x + box.width - 8)
    if _KINDS[vertex.shape]:
        yield (
            f'<text class="small" x="{right}" y="{_n(box.y + 15)}" text-anchor="end">'
            f"{_KINDS[vertex.shape]}</text>"
        )
    if (vertex.visits or 0) > 1 and not is_end:
        yield (
            f'<text class="badge" x="{right}" y="{_n(box.y + 32)}" text-anchor="end">'
            f"{TIMES}{vertex.visits}</text>"
        )
    yield "</g>"


def _path(points: tuple[tuple[float, float], ...]) -> str:
    """A line through the points with round corners."""
    x, y = points[0]
    parts = [f"M{_n(x)} {_n(y)}"]
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        bend = min(_BEND, _length(before, at) / 2, _length(at, after) / 2)
        start, end = _towards(at, before, bend), _towards(at, after, bend)
        parts.append(f"L{_n(start[0])} {_n(start[1])}")
        parts.append(f"Q{_n(at[0])} {_n(at[1])} {_n(end[0])} {_n(end[1])}")
    x, y = points[-1]
    parts.append(f"L{_n(x)} {_n(y)}")
    return "".join(parts)


def _length(one: tuple[float, float], other: tuple[float, float]) -> float:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def _towards(
    start: tuple[float, float], goal: tuple[float, float], far: float
) -> tuple[float, float]:
    length = _length(start, goal) or 1.0
    return (
        start[0] + (goal[0] - start[0]) * far / length,
        start[1] + (goal[1] - start[1]) * far / length,
    )


def _n(number: float) -> str:
    """A short number: a tenth of a pixel is enough."""
    return f"{number:.1f}".rstrip("0").rstrip(".")
