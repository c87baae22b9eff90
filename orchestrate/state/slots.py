"""Slots: how many agents may run at once, over all runs and processes of a user.

A call that wants a slot draws a ticket: a file in the user's state folder whose number says who
came first, and whose lock says that it counts. Its orchestrator holds the lock while the call
waits, the keeper of its program (`execute/keeper/slots`) while that runs: a crash frees both at
once. A ticket may run when fewer run than its agent's limit and the total one allow; of those that
wait, the first for which there is room and that is looking: each look is noted as the file's time,
and no call waits for a process that is stopped. Other users have other folders.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrate.errors import StateError, explain
from orchestrate.record import record
from orchestrate.state.flock import Flock

TOTAL = "total"
_FOLDER = "slots"
_COUNTER = "lock"
_MOST_DIGITS = 30
# Between the end of an orchestrator and its keeper's hold on what it had just asked for.
_HANDED_OVER_WITHIN_S = 5.0
# A call that waits looks twice a second: a call that has not for so long is stopped.
_ABSENT_AFTER_S = 5.0
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


class Ticket:
    """This process's hold on a place in the queue, until it is released or its program has it."""

    def __init__(
        self, folder: Path, number: int, agent: str, limits: Mapping[str, int], held: Flock
    ) -> None:
        self._folder = folder
        self._number = number
        self._agent = agent
        self._limits = limits
        self._held: Flock | None = held
        self._stem = f"{number:012d}.{agent}"

    @property
    def path(self) -> Path:
        """Under this name the program's keeper takes it over."""
        return self._folder / f"{self._stem}{_RUNS}"

    def ahead(self) -> int | None:
        """How many wait or run before there is room for this one; None: it may run now."""
        try:
            return self._look()
        except OSError as error:
            raise _explain(self._folder, error) from error

    def _look(self) -> int | None:
        with _counting(self._folder):
            self._note_look()
            drawn = list(_drawn(self._folder))
            running = [ticket for ticket in drawn if not ticket.waits]
            for waiting in sorted((t for t in drawn if t.waits), key=lambda t: t.number):
                if not _has_room(waiting.agent, running, self._limits):
                    continue
                if waiting.number == self._number:
                    os.rename(self._folder / f"{self._stem}{_WAITS}", self.path)
                    return None
                if waiting.number < self._number and not waiting.is_absent:
                    running.append(waiting)  # it will see for itself
        scarce = self._agent if self._agent in self._limits else None
        rivals = [t for t in drawn if t.waits and t.number < self._number]
        return sum(scarce is None or TOTAL in self._limits or t.agent == scarce for t in rivals)

    def _note_look(self) -> None:
        """A ticket that was removed is written again, in its place."""
        path, now = self._folder / f"{self._stem}{_WAITS}", time.time()
        try:
            os.utime(path, (now, now), follow_symlinks=False)
        except FileNotFoundError:
            self._held = _written(path)

    def hand_over(self) -> bool:
        """Let go as soon as the program's keeper holds it; True if it does."""
        if self._held is not None and not self.path.exists():
            self._held.release()
            self._held = None
        return self._held is None

    def release(self) -> None:
        """The call is over, or is not made."""
        if self._held is None:
            return
        for suffix in (_WAITS, _RUNS):
            with suppress(OSError):
                os.unlink(self._folder / f"{self._stem}{suffix}")
        self._held.release()
        self._held = None


def draw_ticket(state_folder: Path, agent: str, limits: Mapping[str, int]) -> Ticket:
    """A place at the end of the queue."""
    folder = state_folder / _FOLDER
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in agent)
    try:
        with _counting(folder) as counter:
            number = _next_number(folder, counter)
            held = _written(folder / f"{number:012d}.{name}{_WAITS}")
            return Ticket(folder, number, name, limits, held)
    except OSError as error:
        raise _explain(folder, error) from error


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


@contextmanager
def _counting(folder: Path) -> Iterator[int]:
    """Alone in the queue; nothing in it takes longer than a look at a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    counter = os.open(folder / _COUNTER, _OPEN | os.O_CREAT, 0o600)
    try:
        fcntl.flock(counter, fcntl.LOCK_EX)
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
    """When who holds a ticket last looked; None if it does not count, and is no ticket of ours."""
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
