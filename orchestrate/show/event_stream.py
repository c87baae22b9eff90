"""`--events`: a run's events as JSON lines on stdout, one event a line, as they happen."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from orchestrate.errors import ConfigError
from orchestrate.show.inert import inert_json
from orchestrate.show.output import OutputClosed, answer, finish_output, give_up_output
from orchestrate.state.events import Event, event_to_json
from orchestrate.state.journal import read_tail
from orchestrate.view.event_records import EventRecords

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run

_POLL_S = 0.25
# What begins a sitting of a run: `resume` shows from there on.
_SITTING = ("run-started", "run-resumed")


class EventStream:
    """Prints the events of a run that this process works on.

    A reader that goes away, or a disk that is full, must not stop work that costs money: the rest
    is in the run's journal.
    """

    def __init__(self, run: Run) -> None:
        self._records = EventRecords(run)
        self._is_read = True
        past = list(read_tail(run.events))
        first = max((e.seq for e in past if e.event["on"] in _SITTING), default=1)
        for entry in past:
            record = self._records.record(entry.seq, entry.event)
            if entry.seq >= first:
                self._print(record)

    def hear(self, event: Event, state: RunState) -> None:
        self._print(self._records.record(state.seq, event_to_json(event)))

    def _print(self, record: dict[str, Any]) -> None:
        if not self._is_read:
            return
        try:
            _print_line(record)
        except (OutputClosed, ConfigError) as error:
            self._is_read = False
            give_up_output(error)


def show_events(
    run: Run, *, follows: bool = False, last: int | None = None, since: float | None = None
) -> None:
    """`logs --events`: the events of any run from its journal; with `follows` until it ends."""
    from orchestrate.state.locks import is_held

    records = EventRecords(run)
    is_live = follows and is_held(run.lock_file)
    seq = 0
    shown: list[dict[str, Any]] = []
    for entry in read_tail(run.events):
        seq = entry.seq
        record = records.record(entry.seq, entry.event)
        if since is None or entry.event.get("at", since) >= since:
            shown.append(record)
    for record in shown if last is None else shown[len(shown) - min(last, len(shown)) :]:
        _print_line(record)
    while is_live:
        time.sleep(_POLL_S)
        # Asked before reading: what a run writes last is there when its lock is free.
        is_live = is_held(run.lock_file)
        for entry in read_tail(run.events, seq):
            seq = entry.seq
            _print_line(records.record(entry.seq, entry.event))


def _print_line(record: dict[str, Any]) -> None:
    # ASCII only, as every JSON answer of ours: the same under every encoding.
    answer(inert_json(json.dumps(record, separators=(",", ":"))) + "\n")
    finish_output()
