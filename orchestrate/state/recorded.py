"""The events of a run as its journal has them, each as the class that it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrate.record import record
from orchestrate.state.events import Event, event_from_json
from orchestrate.state.journal import damaged, last_event, read_tail


@record
class Recorded:
    """An event and its number, from 1 on."""

    seq: int
    event: Event


def read_events(path: Path, after: int = 0, having: Sequence[bytes] = ()) -> Iterator[Recorded]:
    """The events after a number; `JournalCorruptError` at one that no version can have written.

    With `having`, only those that have one of these bytes written in them: most of a long journal
    is passed over without being parsed. The caller still looks whether an event is meant.
    """
    for entry in read_tail(path, after, having):
        try:
            event = event_from_json(entry.event)
        except ValueError as error:
            raise damaged(path, f"event {entry.seq}: {error}") from None
        yield Recorded(entry.seq, event)


def last_recorded(path: Path) -> Event | None:
    """The last event, if it can be read; costs a line, and a few more where the end is torn."""
    written = last_event(path)
    try:
        return None if written is None else event_from_json(written)
    except ValueError:
        return None
