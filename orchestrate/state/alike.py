"""Reads a long journal quickly: items of a loop that were all the same are counted, not told.

Ten thousand items of which each step began once and succeeded differ in nothing but their times. Of
those a reader gets one `Alike`; every line's number and checksum is looked at all the same.
Whatever is of any other kind, or stands near it, is an event as `recorded.read_events` has it.
"""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Iterator
from pathlib import Path

from orchestrate.plan.nodes import Each, PlanId, Run
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.address import FrameKey, name_of_node
from orchestrate.state.events import LoopOpened, StepFinished, event_from_json
from orchestrate.state.journal import line_in, read_bytes, seed_of
from orchestrate.state.model import Index, RunState, open_loop
from orchestrate.state.recorded import Recorded, read_events
from orchestrate.state.routing import open_items

# Loops of fewer items are told; so are the last items of those that are not, as examples.
_FEWEST = 200
_LAST = 20
# Of a longer stretch the rest comes next: its lines are in memory.
_LONGEST = 8 << 20
_START = rb'\{"seq":(\d+),"batch":(\d+),"sum":"([0-9a-f]{8})","event":'
_LINE = regex(_START + rb"(\{.*\})\}\n")
_TIME = rb"\d+(?:\.\d+)?"
_BEGAN = (
    rb'\{"on":"step-started","frame":"%b\[(\d+)\]","node":"([^"\\]+)","visit":1,"attempt":1,'
    rb'"at":(' + _TIME + rb'),"about":'
)
_ENDED = (
    rb'\{"on":"step-finished","frame":"%b\[(\d+)\]","node":"([^"\\]+)","visit":1,'
    rb'"at":(' + _TIME + rb'),"label":"@ok","result":\{"status":"completed","exit_code":0,'
    rb'"started_at":"[^"]*","completed_at":"[^"]*","duration_ms":(\d+),"attempts":1,'
)
# An agent's turn has more to be counted. A key never stands inside a text: its quotes are escaped.
_TURNS = (b'"agent":', b'"provider":')


@record
class Alike:
    """Items of a loop, from `first` up to `end`: each step began once and succeeded.

    `steps` has their times by node: when it began, when it ended, and the milliseconds it took.
    `seq` is the number of the last of their events.
    """

    seq: int
    loop: LoopOpened
    first: int
    end: int
    steps: dict[str, list[tuple[float, float, int]]]

    @property
    def last_at(self) -> float:
        return max(times[-1][1] for times in self.steps.values())


def read_alike(path: Path, index: Index | None) -> Iterator[Recorded | Alike]:
    """The events of a journal; without an index nothing is known of any loop, and all is told."""
    data = read_bytes(path) if index is not None else b""
    seed, at, seq, not_before = seed_of(path), 0, 0, 0
    loop: LoopOpened | None = None
    while at < len(data):
        end = data.find(b"\n", at) + 1
        body = line_in(data[at:end], seq + 1, seed)
        if body is None:
            break  # torn or damaged: `read_events` says which
        event = event_from_json(body)
        yield Recorded(seq + 1, event)
        at, seq = end, seq + 1
        if isinstance(event, LoopOpened):
            is_long = not event.frame and len(event.items) >= _FEWEST
            loop = event if is_long and _is_plain(index, event) else None
            not_before = 0
        elif loop is not None and isinstance(event, StepFinished) and seq >= not_before:
            # Where it is too short, something else stands in the way: look again behind that.
            not_before = seq + _FEWEST
            stretch = _stretch_of(data, at, loop)
            if stretch is not None:
                found = _find_alike(data[at : stretch[0]], seq, seed, stretch[1])
                if found is None:
                    loop = None  # what is so long and not alike is not looked at again and again
                    continue
                yield found
                at, seq, not_before = stretch[0], found.seq, 0
    yield from read_events(path, seq)


def _is_plain(index: Index | None, loop: LoopOpened) -> bool:
    """Does the loop run programs and nothing else, one item at a time?"""
    try:
        each = None if index is None else index.place(index.program.main, loop.node).node.op
    except KeyError:
        return False  # the journal is an earlier plan's
    if index is None or not isinstance(each, Each) or each.parallel:
        return False
    nodes = index.block(index.program.main, each.body).nodes
    return all(isinstance(node.op, Run) and not node.op.exits for node in nodes)


@record
class _Sought:
    """The items of a loop that may be alike, and how their events begin."""

    loop: LoopOpened
    items: range
    began: bytes
    ended: bytes


def _stretch_of(data: bytes, at: int, loop: LoopOpened) -> tuple[int, _Sought] | None:
    """Up to where the lines from an offset on seem to be alike, if that is far enough."""
    frame = FrameKey().item(name_of_node(loop.node), 0, loop.visit).text.removesuffix("[0]")
    name = re.escape(frame.encode("utf-8")).replace(b"%", b"%%")
    began, ended = _BEGAN % name, _ENDED % name
    plain = re.compile(
        rb"(?>" + _START.replace(b"(", b"(?:") + rb"(?:" + began + rb"|" + ended + rb")[^\n]*\n)++"
    )
    stretch = plain.match(data, at, min(len(data), at + _LONGEST))
    if stretch is None or any(data.find(key, at, stretch.end()) >= 0 for key in _TURNS):
        return None
    begins = re.findall(began, stretch[0])
    if len(begins) < _FEWEST:
        return None
    items = range(int(begins[0][0]), int(begins[-1][0]) - _LAST)
    last = b'"frame":"%b[%d]"' % (frame.encode("utf-8"), items.stop - 1)
    behind = data.rfind(last, at, stretch.end())
    if behind < 0:
        return None
    return data.find(b"\n", behind) + 1, _Sought(loop, items, began, ended)


def _find_alike(lines: bytes, seq: int, seed: int, sought: _Sought) -> Alike | None:
    """The items in these lines, which follow event `seq`, if they are whole and alike."""
    if not _are_whole(lines, seq, seed):
        return None
    steps = _steps_in(lines, sought.began, sought.ended, sought.items)
    if steps is None:
        return None
    items = sought.items
    return Alike(seq + lines.count(b"\n"), sought.loop, items.start, items.stop, steps)


def _are_whole(lines: bytes, seq: int, seed: int) -> bool:
    """Are the numbers of the lines the next ones, and do their checksums hold?"""
    expected = seq
    for number, batch, checksum, body in _LINE.findall(lines):
        expected += 1
        if int(number) != expected:
            return False
        if crc32(body, crc32(b"%b %b " % (number, batch), seed)) != int(checksum, 16):
            return False
    return expected - seq == lines.count(b"\n")


def _steps_in(
    lines: bytes, began: bytes, ended: bytes, items: range
) -> dict[str, list[tuple[float, float, int]]] | None:
    """The times of each step; None unless each item comes once, one after the other."""
    starts, ends = re.findall(began, lines), re.findall(ended, lines)
    if [one[:2] for one in starts] != [one[:2] for one in ends]:
        return None
    if list(dict.fromkeys(int(one[0]) for one in starts)) != list(items):
        return None
    steps: dict[str, list[tuple[float, float, int]]] = {}
    for (_, node, start), (_, _, end, took) in zip(starts, ends, strict=True):
        steps.setdefault(str(node, "utf-8"), []).append((float(start), float(end), int(took)))
    return steps


def pass_over(index: Index, state: RunState, alike: Alike) -> PlanId:
    """Let a state stand behind those items, as if each had been folded in; the plan they are of.

    Their results are not in it: it is for those who want to know where the run goes on.
    """
    frame = state.frames[alike.loop.frame]
    loop = open_loop(frame)
    if loop is None or list(loop.open) != [alike.first]:
        raise ValueError(f"item {alike.first} is not what comes next")
    for inner in loop.open.values():
        del state.frames[inner.key]
    loop.open.clear()
    loop.next_index = alike.end
    open_items(index, state, frame)
    return frame.plan
