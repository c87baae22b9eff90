"""`--events`: a run's events as JSON lines on stdout, one event a line, as they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from orchestrate.show.inert import inert_json
from orchestrate.show.output import answer, finish_output, note
from orchestrate.show.queued_output import QueuedOutput
from orchestrate.state.events import Event, Gap, RunEnded, RunResumed, RunStarted
from orchestrate.state.locks import is_held
from orchestrate.state.recorded import read_events
from orchestrate.view.event_records import EventRecords
from orchestrate.view.follower import JournalTail, left_alone, looks

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Listener

_HURRIED_S = 1.0
# What begins a sitting of a run: `resume` shows from there on.
_SITTING = RunStarted | RunResumed


class EventStream:
    """Prints the events of a run that this process works on.

    A reader that goes away or stalls, or a disk that is full, must not stop work that costs money:
    the rest is in the run's journal.
    """

    def __init__(self) -> None:
        self._output = QueuedOutput()

    def begin(self, run: Run) -> Listener:
        """Print what this sitting of the run has recorded so far; who is to hear of the rest."""
        records = EventRecords(run)
        past = list(read_events(run.events))
        first = max((one.seq for one in past if isinstance(one.event, _SITTING)), default=1)
        for one in past:
            record = records.record(one.seq, one.event)
            if one.seq >= first:
                self._output.write(_line(record))

        def hear(event: Event, state: RunState) -> None:
            self._output.write(_line(records.record(state.seq, event)))

        return hear

    def close(self, *, is_hurried: bool) -> None:
        """Let the reader have the rest; who is to stop waits for a moment only."""
        self._output.close(*([_HURRIED_S] if is_hurried else []))


def show_events(
    run: Run, *, follows: bool = False, last: int | None = None, since: float | None = None
) -> None:
    """`logs --events`: the events of any run from its journal; with `follows` until it ends."""
    records = EventRecords(run)
    is_live = follows and is_held(run.lock_file)
    tail = JournalTail(run, 0)
    shown: list[dict[str, Any]] = []
    newest: Event | None = None
    for one in tail.news():
        newest = one.event
        record = records.record(one.seq, one.event)
        if since is None or isinstance(one.event, Gap) or one.event.at >= since:
            shown.append(record)
    for record in shown if last is None else shown[len(shown) - min(last, len(shown)) :]:
        _print_line(record)
    for _ in looks(run) if is_live else ():
        for one in tail.news():
            newest = one.event
            _print_line(records.record(one.seq, one.event))
    if follows and not isinstance(newest, RunEnded):
        note(left_alone(run))


def _print_line(record: dict[str, Any]) -> None:
    answer(_line(record))
    finish_output()


def _line(record: dict[str, Any]) -> str:
    # ASCII only, as every JSON answer of ours: the same under every encoding.
    return inert_json(json.dumps(record, separators=(",", ":"))) + "\n"
