"""Records of a run's events after a number, also of long runs that are asked about again and again.

A record depends on all events before it. What they come to is kept for each run up to where it was
last asked for, so that a page that follows a run does not read its whole journal each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any

from orchestrate.record import record
from orchestrate.state.recorded import read_events
from orchestrate.view.event_records import EventRecords, skimmed

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

_MOST_KEPT = 32


@record
class _Kept:
    seq: int
    records: EventRecords


_kept: OrderedDict[str, _Kept] = OrderedDict()
_guard = Lock()


def records_after(run: Run, after: int) -> Iterator[dict[str, Any]]:
    """The records of the events after a number, in order; errors are those of the journal."""
    name = str(run.root)
    with _guard:
        known = _kept.get(name)
    if known is None or known.seq > after:
        known = _skipped(run, after)
    folded = known.records.copied()
    is_kept = False
    for recorded in read_events(run.events, known.seq):
        if recorded.seq <= after:
            folded.skip(recorded.event)
            continue
        if not is_kept:
            is_kept = True
            _keep(name, _Kept(recorded.seq - 1, folded.copied()))
        yield folded.record(recorded.seq, recorded.event)


def _skipped(run: Run, after: int) -> _Kept:
    """What the events up to a number come to, or up to shortly before it."""
    records, last = EventRecords(run), 0
    for seq, event in skimmed(run) if after else ():
        if seq > after:
            break
        records.skip(event)
        last = seq
    return _Kept(last, records)


def _keep(name: str, kept: _Kept) -> None:
    with _guard:
        _kept[name] = kept
        _kept.move_to_end(name)
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
