"""A run that is being worked on: events go to the journal first, then into the state and its file.

The journal is the truth. `state.json` is brought up to date when it must be (rulings §6): when the
run stops, before a step that looks into the run's folder, and else soon after something happened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from orchestrate.errors import StateError, repair_hint
from orchestrate.state.apply import apply, start
from orchestrate.state.backups import back_up_state, newest_valid
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import check_seal, check_state, decode
from orchestrate.state.durable import read_file, write_durably, write_visibly
from orchestrate.state.events import (
    Event,
    Gap,
    RunStarted,
    event_to_json,
)
from orchestrate.state.journal import (
    Journal,
    damaged,
    end_of,
    refuse_foreign,
    salvage,
)
from orchestrate.state.locks import Lock
from orchestrate.state.model import Index, RunState
from orchestrate.state.plan_file import LostPlanError
from orchestrate.state.recorded import read_events
from orchestrate.state.runs import Run

# `state.json` may lag this much behind the journal. Where it has thousands of results, it lags as
# long as keeps its writing to this share of the time, and never longer than the last figure.
LAG_S = 0.1
_LARGE = 1 << 18
_SHARE = 0.02
_LONGEST_LAG_S = 5.0

Seen = TypeVar("Seen")
Listener = Callable[[Event, RunState], None]


class Store:
    """The one writer of a run. Threads may record; each event is folded in before the next."""

    def __init__(self, run: Run, lock: Lock, index: Index, state: RunState) -> None:
        self.run = run
        self.index = index
        self.state = state
        self.listeners: list[Listener] = []
        self._lock = lock
        self._encoder = Encoder(index)
        self._journal = Journal.open(run.events)
        lost = state.seq - self._journal.last_seq
        if lost > 0:
            self._journal.append([event_to_json(Gap())] * lost)
        state.synced = self._journal.synced_seq
        self._recording = threading.RLock()
        # Events that the state has and the journal does not have yet.
        self._unwritten: list[Event] = []
        self._written_seq = -1
        self._synced_at = time.monotonic()
        # What a resume finds out about what has ended is not worth a file for each of it.
        self._due_at = self._synced_at + LAG_S

    def record(self, *events: Event, sync: bool = True) -> None:
        """Write events down, durably unless they can be derived again, then fold them in and tell.

        What waits for its sync is never more than `LAG_S` old: a `resume` derives it quickly.
        """
        with self._recording:
            now = time.monotonic()
            sync = sync or now - self._synced_at >= LAG_S
            written = [*self._unwritten, *events]
            self._journal.append([event_to_json(event) for event in written], sync=sync)
            folded, self._unwritten = len(self._unwritten), []
            self.state.synced = self._journal.synced_seq
            if sync:
                self._synced_at = now
            for number, event in enumerate(written):
                if number >= folded:
                    apply(self.index, self.state, event)
                self.state.seq += 1
                for listener in self.listeners:
                    listener(event, self.state)

    def fold(self, event: Event) -> None:
        """Fold in an event that can be derived again; it is written down and told a little later.

        The next program need not wait for that: see `write_down`.
        """
        with self._recording:
            apply(self.index, self.state, event)
            self._unwritten.append(event)

    def write_down(self) -> None:
        """Write down and tell what was only folded in."""
        if self._unwritten:
            self.record(sync=False)

    def sync(self) -> None:
        """Make all that was recorded durable: before anything that is more than another program."""
        with self._recording:
            self.write_down()
            self._journal.sync()
            self.state.synced = self._journal.synced_seq
            self._synced_at = time.monotonic()

    def look(self, reader: Callable[[RunState], Seen]) -> Seen:
        """What a reader in another thread makes of the state, which stands still meanwhile."""
        with self._recording:
            return reader(self.state)

    def checkpoint(self, *, durable: bool = False, is_due: bool = True) -> None:
        """Bring `state.json` up to date; one that is not due is left for later."""
        with self._recording:
            if self._is_current() and not durable:
                return
            began = time.monotonic()
            if not is_due and began < self._due_at:
                return
            self.sync()
            content = self._encoder.encode(self.state)
            if durable:
                write_durably(self.run.state, content, keep_previous=True)
            else:
                write_visibly(self.run.state, content)
            self._written_seq = self.state.seq
            now = time.monotonic()
            fair_s = (now - began) / _SHARE if len(content) > _LARGE else 0.0
            # From its beginning, so that it comes before the next sync by time, and includes that.
            self._due_at = max(began + LAG_S, now + min(fair_s, _LONGEST_LAG_S))

    def due_in_s(self) -> float | None:
        """How soon `state.json` has to be brought up to date; None if it is."""
        if self._is_current():
            return None
        return max(self._due_at - time.monotonic(), 0.0)

    def _is_current(self) -> bool:
        return self._written_seq == self.state.seq and not self._unwritten

    def is_behind(self) -> bool:
        """Does `state.json` lack something that the journal has?"""
        content = read_file(self.run.state)
        try:
            return content is None or check_seal(content).get("seq") != self.state.seq
        except ValueError:
            return True

    def back_up(self, step: str) -> None:
        """Keep a copy of the state as it is before a step (`--backup-state`)."""
        self.checkpoint()
        back_up_state(self.run, step)

    def close(self) -> None:
        self._journal.close()
        self._lock.release()


def first_files(index: Index, event: RunStarted) -> dict[str, bytes]:
    """What a new run's folder begins with."""
    state = start(index, event)
    return {"state.json": Encoder(index).encode(state)}


def begin(run: Run, lock: Lock, index: Index, event: RunStarted) -> Store:
    """A new run whose folder was made with `first_files`."""
    store = Store(run, lock, index, start(index, event))
    store.record(event)
    store.checkpoint()
    return store


def load(run: Run, index: Index, told: Callable[[str], None] = lambda _: None) -> RunState:
    """The state of a run: `state.json` and the journal's tail, or all of the journal.

    A state file that does not hold is built again from the journal, which has everything.
    """
    refuse_foreign(run.events, run.id)
    content = read_file(run.state)
    state = None
    if content is not None:
        try:
            state = decode(index, content, run.id)
        except ValueError as error:
            told(f"state.json is not used: {error}; it is built again from events.jsonl")
    if state is not None and state.synced <= end_of(run.events) < state.seq:
        # A power cut took the last lines of the journal, which were not synced because nothing
        # acts on them; the state, which was, has them folded in. Had it taken more, it would be
        # the wrong journal, or one that was cut.
        return state
    return _fold(run, index, state)


def _fold(run: Run, index: Index, state: RunState | None) -> RunState:
    for recorded in read_events(run.events, 0 if state is None else state.seq):
        seq, event = recorded.seq, recorded.event
        if state is None:
            if not isinstance(event, RunStarted):
                raise StateError(
                    f"the journal of run {run.id} does not begin with its start",
                    f"start over with: orchestrate resume {run.id} --force-restart",
                )
            state = start(index, event)
        else:
            try:
                apply(index, state, event)
            except LostPlanError:
                raise  # the journal is whole
            except StateError as error:
                raise damaged(run.events, f"event {seq}: {error.message}") from None
        state.seq = seq
    if state is None:
        raise StateError(
            f"run {run.id} has neither a state nor a journal that can be read", _way_out(run)
        )
    return state


def _way_out(run: Run) -> str:
    """An earlier state that is valid can be gone back to; without one, only a new start is left."""
    try:
        newest_valid(run, lambda data: check_state(data, run.id))
    except StateError as error:
        return error.hint
    return repair_hint(run.id)


def repair(run: Run, index: Index) -> tuple[RunState, str]:
    """The newest state that holds, and a journal that fits it; what was damaged is kept beside.

    Says what was done. The longest good part of the journal is always kept; a state that is newer
    than that part counts more than the lost events.
    """
    lines, last = salvage(run.events)
    candidates: list[tuple[int, RunState, str]] = []
    try:
        path, document = newest_valid(run, lambda data: check_state(data, run.id))
        content = read_file(path)
        if content is not None and document["seq"] > last:
            found = decode(index, content, run.id)
            candidates.append((found.seq, found, f"{path.name} at event {found.seq}"))
    except (StateError, ValueError):
        pass
    aside = _put_aside(run, lines)
    if candidates:
        seq, state, how = candidates[0]
        with Journal.open(run.events) as journal:
            gap = event_to_json(Gap())
            journal.append([gap] * (seq - last))
        return state, f"went back to {how}; the damaged journal is kept as {aside}"
    state = _fold(run, index, None)
    return state, f"kept the first {last} events of the journal; the old one is {aside}"


def put_damage_aside(run: Run) -> str:
    """Replace the journal by what stands before its first damage; the name of the old one."""
    return _put_aside(run, salvage(run.events)[0])


def _put_aside(run: Run, good: Sequence[bytes]) -> str:
    """Replace the journal by its good lines; the old one stays for inspection."""
    number = 1
    while os.path.lexists(run.root / f"events.jsonl.damaged-{number}"):
        number += 1
    name = f"events.jsonl.damaged-{number}"
    content = read_file(run.events)
    if content is not None:
        write_durably(run.root / name, content)
    write_durably(run.events, b"".join(good))
    return name
