"""The histories of the runs that are looked at, read on from where they were when asked again.

A journal of 100,000 events takes seconds to read. A page asks for its steps, its graph, its report
and its changes, and of a run at work all of that again and again.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from orchestrate.record import field, mutable_record
from orchestrate.view.history import Chronicle, History

if TYPE_CHECKING:
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run

_MOST_KEPT = 8


@mutable_record
class _Kept:
    """One request at a time reads it; those that wait meanwhile find it read."""

    guard: Lock = field(default_factory=Lock)
    history: History | None = None
    # The journal that was read: another one has another number, or is shorter.
    number: int = 0
    size: int = 0


_kept: OrderedDict[str, _Kept] = OrderedDict()
_guard = Lock()


def kept_chronicle(run: Run, index: Index | None, now: float, *, is_live: bool) -> Chronicle:
    """What `read_chronicle` says."""
    kept = _of(str(run.root))
    with kept.guard:
        try:
            found = os.stat(run.events)
            number, size = found.st_ino, found.st_size
        except OSError:
            number, size = 0, 0
        if kept.history is None or number != kept.number or size < kept.size:
            kept.history = History(run, index)
        if size != kept.size or number != kept.number:
            kept.history.read_on()
        if kept.history.is_edited:
            kept.history = History(run, index)
            kept.history.read_on()
        kept.number, kept.size = number, size
        return kept.history.told(now, is_live=is_live)


def _of(name: str) -> _Kept:
    with _guard:
        kept = _kept.setdefault(name, _Kept())
        _kept.move_to_end(name)
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return kept
