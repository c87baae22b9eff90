"""A run that another process works on, read from its journal as that grows.

No file system tells everywhere that another process has written, so we look a few times a second.
`looks` is the one place that waits, for `attach`, `wait` and `logs -f`; a look costs two calls.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from orchestrate.errors import completed
from orchestrate.state.apply import apply
from orchestrate.state.events import Event
from orchestrate.state.journal import end_of
from orchestrate.state.locks import is_held
from orchestrate.state.plan_file import index_of
from orchestrate.state.recorded import Recorded, read_events
from orchestrate.state.store import load

if TYPE_CHECKING:
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run

Seen = TypeVar("Seen")
_LOOK_EVERY_S = 0.2


def looks(
    run: Run, rest: Callable[[float], object] = time.sleep, within_s: float | None = None
) -> Iterator[bool]:
    """Look at a run now, and again and again while a process works on it: does one?

    That is asked before each look, so that the last one comes after all that the process has
    written. With `within_s` the looks end after so long, too.
    """
    give_up = None if within_s is None else time.monotonic() + within_s
    is_owned = True
    while is_owned:
        is_owned = is_held(run.lock_file)
        yield is_owned
        left = _LOOK_EVERY_S if give_up is None else give_up - time.monotonic()
        if left <= 0:
            return
        if is_owned:
            rest(min(_LOOK_EVERY_S, left))


class JournalTail:
    """The events that a journal has gained since the last look, which costs a `stat` if none."""

    def __init__(self, run: Run, after: int) -> None:
        self._path = run.events
        self._seq = after
        self._size = -1

    def news(self) -> Iterator[Recorded]:
        size = os.stat(self._path).st_size
        if size == self._size:
            return
        self._size = size
        for recorded in read_events(self._path, self._seq):
            self._seq = recorded.seq
            yield recorded


class Follower:
    """A run's state, kept up by its journal; the same to look at as the `Store` of its owner."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.index: Index = index_of(run)
        self.state: RunState = load(run, self.index)
        self._tail = JournalTail(run, self.state.seq)
        self._folding = threading.Lock()

    def look(self, reader: Callable[[RunState], Seen]) -> Seen:
        """What a reader in another thread makes of the state, which stands still meanwhile."""
        with self._folding:
            return reader(self.state)

    def catch_up(self, hear: Callable[[Event, RunState], None]) -> None:
        """Fold in what has happened since, and pass each event on."""
        for recorded in self._tail.news():
            with self._folding:
                apply(self.index, self.state, recorded.event)
                self.state.seq = recorded.seq
            hear(recorded.event, self.state)


def tail_from_now(run: Run) -> JournalTail:
    return JournalTail(run, end_of(run.events))


def left_alone(run: Run) -> str:
    """What to say when the process was killed whose run is followed."""
    return (
        f"orchestrate: the process that worked on run {run.id} is gone, and the run has not ended; "
        f"how to go on: {completed(f'orchestrate status {run.id}')}\n"
    )
