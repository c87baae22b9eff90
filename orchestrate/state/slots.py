"""Slots: how many agents may run at once, over all runs and processes of a user.

A call that wants a slot draws a ticket: a file in the user's state folder whose number says who
came first, and whose lock says that it counts. Its orchestrator holds the lock while the call
waits, the keeper of its program (`execute/keeper/slots`) while that runs: a crash frees both at
once. A ticket may run when fewer run than its agent's limit and the total one allow; of those that
wait, the first for which there is room and that is looking: each look is noted as the file's time,
and no call waits for a process that is stopped. Of a process' calls of one agent only the first
looks at the folder, for all of them: hundreds that wait cost as little as one. Other users have
other folders.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrate.errors import StateError, explain
from orchestrate.record import record
from orchestrate.state.flock import Flock
from orchestrate.state.locks import wait_for_instant

TOTAL = "total"
_FOLDER = "slots"
_COUNTER = "lock"
_MOST_DIGITS = 30
# Between the end of an orchestrator and its keeper's hold on what it had just asked for.
_HANDED_OVER_WITHIN_S = 5.0
# A call that waits looks twice a second: a call that has not for so long is stopped.
_ABSENT_AFTER_S = 5.0
# How old the note of a look may be of a call that another one looks for.
_NOTED_EVERY_S = 1.0
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
# While a call waits, when it may run, and when its program's keeper holds the lock, too: the last
# name is the keeper's to give.
_WAITS, _RUNS, _HELD = ".wait", ".runs", ".held"


@record
class _Drawn:
    """A ticket that counts, as its file is called: `000000000012.claude-code.wait`."""

    number: int
    agent: str
    waits: bool
    is_absent: bool = False


class Queue:
    """The queue as the calls of one process see it."""

    def __init__(self, state_folder: Path, limits: Mapping[str, int]) -> None:
        self.folder = state_folder / _FOLDER
        self.limits = limits
        self._lock = threading.Lock()
        # The calls of this process that wait, what the last look has shown, and who may run by it.
        self._own: dict[int, str] = {}
        self._seen: list[_Drawn] = []
        self._may_run: set[int] = set()

    def draw(self, agent: str) -> Ticket:
        """A place at the end."""
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in agent)
        try:
            with _counting(self.folder) as counter:
                number = _next_number(self.folder, counter)
                held = _written(self.folder / f"{number:012d}.{name}{_WAITS}")
        except OSError as error:
            raise _explain(self.folder, error) from error
        with self._lock:
            self._own[number] = name
        return Ticket(self, number, name, held)

    def look(self) -> set[int]:
        """Who may run; asked by one process at a time."""
        drawn = list(_drawn(self.folder))
        may_run = _may_run(drawn, self.limits)
        with self._lock:
            self._seen, self._may_run = drawn, may_run
        return may_run

    def is_seen_by_another(self, number: int, agent: str) -> bool:
        """Does a call of ours stand before this one, which has seen that it has to wait?"""
        with self._lock:
            is_known = any(ticket.number == number for ticket in self._seen)
            is_behind = any(one == agent and other < number for other, one in self._own.items())
            return is_known and is_behind and number not in self._may_run

    def ahead_of(self, number: int, agent: str) -> int:
        """How many wait for the same slots and have come before."""
        is_any = agent not in self.limits or TOTAL in self.limits
        with self._lock:
            rivals = [t for t in self._seen if t.waits and t.number < number]
        return sum(is_any or ticket.agent == agent for ticket in rivals)

    def leave(self, number: int) -> None:
        with self._lock:
            self._own.pop(number, None)


class Ticket:
    """This process's hold on a place in the queue, until it is released or its program has it."""

    def __init__(self, queue: Queue, number: int, agent: str, held: Flock) -> None:
        self._queue = queue
        self._folder = queue.folder
        self._number = number
        self._agent = agent
        self._held: Flock | None = held
        self._noted = 0.0
        self._stem = f"{number:012d}.{agent}"

    @property
    def path(self) -> Path:
        """Under this name the program's keeper takes it over."""
        return self._folder / f"{self._stem}{_RUNS}"

    def ahead(self) -> int | None:
        """How many wait or run before there is room for this one; None: it may run now."""
        queue = self._queue
        try:
            is_seen = queue.is_seen_by_another(self._number, self._agent)
            if not (is_seen and self._is_noted(_NOTED_EVERY_S)):
                with _counting(self._folder):
                    self._note_look()
                    if self._number in queue.look():
                        os.rename(self._folder / f"{self._stem}{_WAITS}", self.path)
                        queue.leave(self._number)
                        return None
        except OSError as error:
            raise _explain(self._folder, error) from error
        return queue.ahead_of(self._number, self._agent)

    def _is_noted(self, every_s: float = 0.0) -> bool:
        """Put on record that the call still waits; False if its ticket was removed."""
        if abs(time.time() - self._noted) >= every_s:
            try:
                os.utime(self._folder / f"{self._stem}{_WAITS}", follow_symlinks=False)
            except FileNotFoundError:
                return False
            self._noted = time.time()
        return True

    def _note_look(self) -> None:
        """A ticket that was removed is written again, in its place."""
        if not self._is_noted():
            self._held = _written(self._folder / f"{self._stem}{_WAITS}")

    def hand_over(self) -> bool:
        """Let go as soon as the program's keeper holds it; True if it does."""
        if self._held is not None and not self.path.exists():
            self._held.release()
            self._held = None
        return self._held is None

    def release(self) -> None:
        """The call is over, or is not made."""
        self._queue.leave(self._number)
        if self._held is None:
            return
        for suffix in (_WAITS, _RUNS):
            with suppress(OSError):
                os.unlink(self._folder / f"{self._stem}{suffix}")
        self._held.release()
        self._held = None


def draw_ticket(state_folder: Path, agent: str, limits: Mapping[str, int]) -> Ticket:
    """A place at the end of the queue, for one call alone."""
    return Queue(state_folder, limits).draw(agent)


def _written(path: Path) -> Flock:
    """A new ticket, which counts as long as its lock is held."""
    held = Flock(os.open(path, _OPEN | os.O_CREAT, 0o600))
    fcntl.flock(held.descriptor, fcntl.LOCK_SH)
    return held


def _next_number(folder: Path, counter: int) -> int:
    """After all that were drawn, also if what was counted is damaged."""
    counted = os.pread(counter, _MOST_DIGITS, 0).strip()
    drawn = (name.partition(b".")[0] for name in os.listdir(os.fsencode(folder)))
    numbers = [int(text) for text in (*drawn, counted) if text.isdigit()]
    number = b"%d" % (max(numbers, default=0) + 1)
    os.ftruncate(counter, os.pwrite(counter, number, 0))
    return int(number)


def _explain(folder: Path, error: OSError) -> StateError:
    return explain("queue for a slot in", Path(error.filename or folder), error)


def _has_room(agent: str, running: list[_Drawn], limits: Mapping[str, int]) -> bool:
    same = sum(ticket.agent == agent for ticket in running)
    return same < limits.get(agent, same + 1) and len(running) < limits.get(TOTAL, len(running) + 1)


def _may_run(drawn: list[_Drawn], limits: Mapping[str, int]) -> set[int]:
    """Those that wait and for which there is room, the first first; a place is kept for each that
    will see for itself."""
    running = [ticket for ticket in drawn if not ticket.waits]
    found: set[int] = set()
    for waiting in sorted((t for t in drawn if t.waits), key=lambda t: t.number):
        if _has_room(waiting.agent, running, limits):
            found.add(waiting.number)
            if not waiting.is_absent:
                running.append(waiting)
    return found


@contextmanager
def _counting(folder: Path) -> Iterator[int]:
    """Alone in the queue; nothing in it takes longer than a look at a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    counter = os.open(folder / _COUNTER, _OPEN | os.O_CREAT, 0o600)
    try:
        wait_for_instant(counter, "the queue for slots")
        yield counter
    finally:
        os.close(counter)


def _drawn(folder: Path) -> Iterator[_Drawn]:
    """The tickets that count; those of the dead are thrown away."""
    for name in os.listdir(folder):
        stem, dot, suffix = name.rpartition(".")
        number, _, agent = stem.partition(".")
        if f"{dot}{suffix}" not in (_WAITS, _RUNS, _HELD) or not number.isdecimal():
            continue
        waits = f".{suffix}" == _WAITS
        seen = _seen(folder / name, is_handed_over=f".{suffix}" == _RUNS)
        if seen is not None:
            is_absent = waits and abs(time.time() - seen) > _ABSENT_AFTER_S
            yield _Drawn(int(number), agent, waits, is_absent)


def _seen(path: Path, *, is_handed_over: bool) -> float | None:
    """When the holder of a ticket last looked; None for a ticket that does not count."""
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    facts = os.fstat(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_handed_over and 0 <= time.time() - facts.st_ctime < _HANDED_OVER_WITHIN_S:
            return facts.st_mtime
        with suppress(OSError):
            os.unlink(path)
        return None
    except BlockingIOError:
        return facts.st_mtime
    finally:
        os.close(descriptor)
