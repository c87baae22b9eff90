"""Stretches of time in which a step did something, as a timeline draws them."""

from __future__ import annotations

from typing import Literal

from orchestrate.record import record

# work: it went well; fail: it did not; rest: until the next attempt; wait: for a file or a person;
# cut: stopped or lost; open: it has not ended; span: a loop or a call, over all that is in it.
Kind = Literal["work", "fail", "rest", "wait", "cut", "open", "span"]


@record
class Bar:
    """A stretch of time in which a step did something."""

    start: float
    end: float
    kind: Kind


@record
class ItemBars:
    """When a step worked on one item of a loop; its place in that, and in the loops around it."""

    numbers: tuple[int, ...]
    name: str
    bars: list[Bar]


def merged(bars: list[Bar], nearer_than: float) -> list[Bar]:
    """Fewer bars that look the same: those of one kind that lie so near become one."""
    found: list[Bar] = []
    newest: dict[str, int] = {}
    for bar in sorted(bars, key=lambda one: (one.start, one.end)):
        at = newest.get(bar.kind)
        if at is not None and bar.start - found[at].end <= nearer_than:
            joined = Bar(found[at].start, max(found[at].end, bar.end), bar.kind)
            found[at] = joined
        else:
            newest[bar.kind] = len(found)
            found.append(bar)
    return found
