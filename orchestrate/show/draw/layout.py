"""Places a drawing on a page: one step a row in the author's order, wires in lanes at the sides.

A recipe is read from top to bottom, so its picture is, too (docs/adr/0012). A wire to the next row
goes straight down. One that skips rows runs in a lane on the right, one that goes back in a lane on
the left; wires to the same step share a lane. Each wire has a height of its own at the step that it
leaves or reaches, and its label stands there; ends stand beside the step that leads to them. So no
two texts or boxes can overlap, whatever the plan.
"""

from __future__ import annotations

from typing import Literal

from orchestrate.plan.visible import clip, visible, width_of
from orchestrate.record import field, mutable_record, record
from orchestrate.show.draw.drawing import Drawing, Edge, Group, LineStyle, Vertex, caption_of

# All in pixels. A character's width is what wide ones of a sans-serif type take, so that texts fit.
_CHARACTER = 7.4
_SMALL_CHARACTER = 6.4
_LONGEST_NAME = 40
_LONGEST_LABEL = 44
_BOX_HEIGHT = 40
_START_WIDTH = 64
_START_HEIGHT = 26
_SLOT = 24
_LANE = 14
_MARGIN = 16
_GAP = 20
_GAP_WITH_LABEL = 36
_TITLE = 24
_FRAME = 12
_ENDS = ("finish", "abort")

Side = Literal["left", "right"]


@record
class Box:
    """A step, a start, or an end beside its step."""

    x: float
    y: float
    width: float
    height: float
    text: str
    vertex: Vertex


@record
class LoopBox:
    x: float
    y: float
    width: float
    height: float
    text: str


@record
class Wire:
    """A line with an arrow at its end; `label` stands at (`label_x`, `label_y`)."""

    points: tuple[tuple[float, float], ...]
    line: LineStyle
    taken: int | None
    label: str = ""
    label_x: float = 0
    label_y: float = 0
    anchor: Literal["start", "end"] = "start"


@record
class Picture:
    width: float
    height: float
    boxes: list[Box]
    frames: list[LoopBox]
    wires: list[Wire]


@mutable_record
class _Row:
    """A vertex on the spine. Slots are heights at its sides: arriving lanes first, then leaving."""

    vertex: Vertex
    depth: int
    ends: list[tuple[Edge, Vertex]] = field(default_factory=list)
    down: list[Edge] = field(default_factory=list)
    out: dict[Side, list[Edge]] = field(default_factory=lambda: {"left": [], "right": []})
    arrivals: dict[Side, list[_Lane]] = field(default_factory=lambda: {"left": [], "right": []})
    y: float = 0
    height: float = 0
    gap_before: float = 0
    closes: int = 0


@mutable_record
class _Lane:
    """The wires of one kind to one row, on one side."""

    side: Side
    head: int
    line: LineStyle
    first: int
    last: int
    edges: list[tuple[int, Edge]] = field(default_factory=list)
    number: int = 0


def lay_out(drawing: Drawing) -> Picture:
    """Where everything stands; the same drawing always gives the same picture."""
    return _Page(drawing).picture()


class _Page:
    def __init__(self, drawing: Drawing) -> None:
        self.rows: list[_Row] = []
        self.spans: list[tuple[Group, int, int, int]] = []
        self.ends: dict[str, Vertex] = {}
        self.depth = 0
        self._collect(in_reading_order(drawing).top, 0)
        self.numbers = {row.vertex.id: number for number, row in enumerate(self.rows)}
        self.lanes: dict[tuple[Side, int, LineStyle], _Lane] = {}
        for edge in drawing.edges:
            self._sort_in(edge)
        self._number_lanes("left")
        self._number_lanes("right")
        self.height = self._stack()
        self._measure()

    def _collect(self, group: Group, depth: int) -> None:
        self.depth = max(self.depth, depth)
        for member in group.members:
            if isinstance(member, Vertex):
                if member.shape in _ENDS:
                    self.ends[member.id] = member
                else:
                    self.rows.append(_Row(member, depth))
                continue
            first = len(self.rows)
            self._collect(member, depth + 1)
            if len(self.rows) > first:
                self.spans.append((member, first, len(self.rows) - 1, depth + 1))
                self.rows[first].gap_before += _TITLE + _FRAME
                self.rows[-1].closes += 1

    def _sort_in(self, edge: Edge) -> None:
        """Straight down, to an end beside the row, or into a lane."""
        tail = self.numbers[edge.tail]
        row = self.rows[tail]
        if edge.head in self.ends:
            row.ends.append((edge, self.ends[edge.head]))
            return
        head = self.numbers[edge.head]
        if head == tail + 1:
            row.down.append(edge)
            return
        side: Side = "right" if head > tail else "left"
        row.out[side].append(edge)
        key = (side, head, edge.line)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = _Lane(side, head, edge.line, min(tail, head), max(tail, head))
            self.rows[head].arrivals[side].append(lane)
        lane.first = min(lane.first, tail)
        lane.last = max(lane.last, tail)
        lane.edges.append((tail, edge))

    def _number_lanes(self, side: Side) -> None:
        """The shortest lanes lie nearest; two that share a row lie beside each other."""
        lanes = [lane for lane in self.lanes.values() if lane.side == side]
        placed: list[list[_Lane]] = []
        for lane in sorted(lanes, key=lambda one: (one.last - one.first, one.first, one.head)):
            number = 0
            while number < len(placed) and any(
                lane.first <= other.last and other.first <= lane.last for other in placed[number]
            ):
                number += 1
            if number == len(placed):
                placed.append([])
            placed[number].append(lane)
            lane.number = number

    def _stack(self) -> float:
        y: float = _MARGIN
        gap = 0.0
        for row in self.rows:
            slots = max(
                len(row.arrivals["left"]) + len(row.out["left"]),
                len(row.arrivals["right"]) + len(row.out["right"]) + len(row.ends),
            )
            least = _START_HEIGHT if row.vertex.shape == "start" else _BOX_HEIGHT
            row.height = max(least, slots * _SLOT + 8 if slots > 1 else 0)
            row.y = y + gap + row.gap_before
            y = row.y + row.height
            gap = _FRAME * row.closes
            has_label = any(edge.text for edge in row.down)
            gap += _GAP_WITH_LABEL if has_label else _GAP
        last = self.rows[-1] if self.rows else None
        return y + _MARGIN + (_FRAME * last.closes if last is not None else 0)

    def _measure(self) -> None:
        names = [
            _text_width(caption_of(row.vertex), _LONGEST_NAME, _CHARACTER) for row in self.rows
        ]
        # 84 for the word that says what kind of step it is.
        self.box_width = max([130.0, *(width + 84 for width in names)])
        self.label_width: dict[Side, float] = {"left": 0, "right": 0}
        for row in self.rows:
            for side in self.label_width:
                edges = list(row.out[side])
                if side == "right":
                    edges += [edge for edge, _ in row.ends]
                for edge in edges:
                    width = _text_width(edge.text, _LONGEST_LABEL, _SMALL_CHARACTER) + 22
                    self.label_width[side] = max(self.label_width[side], width)
        pills = [
            _text_width(end.text, _LONGEST_LABEL, _SMALL_CHARACTER) + 26
            for row in self.rows
            for _, end in row.ends
        ]
        self.pill_width = max(pills, default=0.0)
        frames = _FRAME * self.depth
        self.left_lane: float = _MARGIN + _LANE * self._lane_count("left")
        self.box_x = self.left_lane + frames + self.label_width["left"] + 8
        self.pill_x = self.box_x + self.box_width + self.label_width["right"]
        self.right_lane = self.pill_x + self.pill_width + frames + 8
        self.width = self.right_lane + _LANE * self._lane_count("right") + _MARGIN

    def _width_of(self, row: _Row) -> float:
        return _START_WIDTH if row.vertex.shape == "start" else self.box_width

    def _lane_count(self, side: Side) -> int:
        return 1 + max(
            (lane.number for lane in self.lanes.values() if lane.side == side), default=-1
        )

    # What is drawn.

    def picture(self) -> Picture:
        boxes: list[Box] = []
        wires: list[Wire] = []
        for number, row in enumerate(self.rows):
            text = clip(visible(row.vertex.text), _LONGEST_NAME)
            width = self._width_of(row)
            boxes.append(Box(self.box_x, row.y, width, row.height, text, row.vertex))
            wires += self._down_wires(number, row)
            for position, (edge, end) in enumerate(row.ends):
                y = self._slot_y(row, len(row.arrivals["right"]) + position)
                words = clip(visible(end.text), _LONGEST_LABEL)
                width = _text_width(end.text, _LONGEST_LABEL, _SMALL_CHARACTER) + 20
                boxes.append(Box(self.pill_x, y - 10, width, 20, words, _as_reached(end, edge)))
                start = self.box_x + self.box_width
                wires.append(self._labelled(((start, y), (self.pill_x, y)), edge, "right"))
        for lane in self.lanes.values():
            wires += self._lane_wires(lane)
        return Picture(self.width, self.height, boxes, self._frames(), wires)

    def _frames(self) -> list[LoopBox]:
        frames = []
        for group, first, last, depth in sorted(self.spans, key=lambda span: span[3]):
            inset = _FRAME * (self.depth - depth)
            x = self.box_x - self.label_width["left"] - 8 - inset
            right = self.pill_x + self.pill_width + 8 + inset
            # Frames that begin or end at the same row lie inside each other.
            above = sum(1 for _, f, _, d in self.spans if f == first and d > depth)
            below = sum(1 for _, _, end, d in self.spans if end == last and d > depth)
            top = self.rows[first].y - (_TITLE + _FRAME) * (above + 1) + 4
            bottom = self.rows[last].y + self.rows[last].height + _FRAME * (below + 1) - 2
            text = clip(visible(group.text), _LONGEST_LABEL)
            frames.append(LoopBox(x, top, right - x, bottom - top, text))
        return frames

    def _down_wires(self, number: int, row: _Row) -> list[Wire]:
        if not row.down:
            return []
        below = self.rows[number + 1]
        middle = self.box_x + 40
        top = row.y + row.height
        counts = [edge.taken for edge in row.down]
        taken = None if None in counts else sum(count or 0 for count in counts)
        text = ", ".join(edge.text for edge in row.down if edge.text)
        return [
            Wire(
                ((middle, top), (middle, below.y)), row.down[0].line, taken,
                clip(visible(text), _LONGEST_NAME), middle + 8, top + 16,
            )
        ]  # fmt: skip

    def _lane_wires(self, lane: _Lane) -> list[Wire]:
        head = self.rows[lane.head]
        arrival = self._slot_y(head, head.arrivals[lane.side].index(lane))
        if lane.side == "left":
            x = self.left_lane - _LANE * (lane.number + 1) + 4
            edge_x = self.box_x
        else:
            x = self.right_lane + _LANE * lane.number + 4
            edge_x = self.box_x + self._width_of(head)
        wires = []
        for tail, edge in lane.edges:
            row = self.rows[tail]
            leave_x = self.box_x if lane.side == "left" else self.box_x + self._width_of(row)
            position = len(row.arrivals[lane.side]) + row.out[lane.side].index(edge)
            if lane.side == "right":
                position += len(row.ends)
            y = self._slot_y(row, position)
            points = ((leave_x, y), (x, y), (x, arrival), (edge_x, arrival))
            wires.append(self._labelled(points, edge, lane.side))
        return wires

    def _labelled(self, points: tuple[tuple[float, float], ...], edge: Edge, side: Side) -> Wire:
        x, y = points[0]
        text = clip(visible(edge.text), _LONGEST_LABEL)
        at = x + 10 if side == "right" else x - 10
        anchor: Literal["start", "end"] = "start" if side == "right" else "end"
        return Wire(points, edge.line, edge.taken, text, at, y - 4, anchor)

    def _slot_y(self, row: _Row, position: int) -> float:
        return row.y + 4 + _SLOT * position + _SLOT * 2 / 3


def in_reading_order(drawing: Drawing) -> Drawing:
    """The drawing with the steps of a machine in the order in which they are first reached.

    Its steps are a mapping, whose order says nothing. Where the first step is the first one that
    was written, and around loops, the author's order stays.
    """
    heads: dict[str, list[str]] = {}
    for edge in drawing.edges:
        heads.setdefault(edge.tail, []).append(edge.head)
    return Drawing(_ordered(drawing.top, heads), drawing.edges)


def _ordered(group: Group, heads: dict[str, list[str]]) -> Group:
    members = [m if isinstance(m, Vertex) else _ordered(m, heads) for m in group.members]
    known = {m.id: m for m in members if isinstance(m, Vertex)}
    starts = [vertex for vertex in known.values() if vertex.shape == "start"]
    if len(known) < len(members) or len(starts) != 1:
        return Group(group.id, group.text, members)
    steps = [name for name, vertex in known.items() if vertex.shape not in _ENDS]
    if heads.get(starts[0].id) == steps[1:2]:
        return group
    reached: dict[str, None] = {}
    waiting = [starts[0].id]
    while waiting:
        name = waiting.pop()
        if name in known and name not in reached:
            reached[name] = None
            waiting += reversed(heads.get(name, []))
    order = dict.fromkeys([*reached, *known])
    return Group(group.id, group.text, [known[name] for name in order])


def _text_width(text: str, longest: int, character: float) -> float:
    return min(width_of(visible(text)), longest) * character


def _as_reached(end: Vertex, edge: Edge) -> Vertex:
    """An end beside one step was reached as often as that step led to it."""
    return Vertex(end.id, end.text, end.shape, edge.taken)
