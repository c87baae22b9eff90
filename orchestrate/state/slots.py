"""Slots: how many agents may run at once, over all runs and processes of a user.

A call that wants a slot draws a ticket: a file in the user's state folder whose number says who
came first, and whose lock says that it counts. Its orchestrator holds the lock while the call
waits, the keeper of its program (`execute/keeper/slots`) while that runs: a crash frees both at
once. A ticket may run when fewer run than its agent's limit and the total one allow; of those that
wait, the first for which there is room. Other users have other folders.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrate.errors import explain
from orchestrate.record import record
from orchestrate.state.flock import Flock

TOTAL = "total"
_FOLDER = "slots"
_COUNTER = "lock"
# Between the end of an orchestrator and its keeper's hold on what it had just asked for.
_HANDED_OVER_WITHIN_S = 5.0
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
        with _counting(self._folder):
            drawn = list(_drawn(self._folder))
            running = [ticket for ticket in drawn if not ticket.waits]
            for waiting in sorted((t for t in drawn if t.waits), key=lambda t: t.number):
                if not _has_room(waiting.agent, running, self._limits):
                    continue
                if waiting.number == self._number:
                    os.rename(self._folder / f"{self._stem}{_WAITS}", self.path)
                    return None
                if waiting.number < self._number:
                    running.append(waiting)  # it will see for itself
        scarce = self._agent if self._agent in self._limits else None
        rivals = [t for t in drawn if t.waits and t.number < self._number]
        return sum(scarce is None or TOTAL in self._limits or t.agent == scarce for t in rivals)

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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _counting(folder) as counter:
            number = int(os.pread(counter, 20, 0) or b"0") + 1
            os.pwrite(counter, b"%d" % number, 0)
            descriptor = os.open(
                folder / f"{number:012d}.{name}{_WAITS}", _OPEN | os.O_CREAT, 0o600
            )
            held = Flock(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        return Ticket(folder, number, name, limits, held)
    except (OSError, ValueError) as error:
        fault = error if isinstance(error, OSError) else OSError(0, str(error))
        raise explain("draw a ticket for a slot in", folder, fault) from error


def _has_room(agent: str, running: list[_Drawn], limits: Mapping[str, int]) -> bool:
    same = sum(ticket.agent == agent for ticket in running)
    return same < limits.get(agent, same + 1) and len(running) < limits.get(TOTAL, len(running) + 1)


@contextmanager
def _counting(folder: Path) -> Iterator[int]:
    """Alone in the queue; nothing in it takes longer than a look at a folder."""
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
        if _counts(folder / name, is_handed_over=f".{suffix}" == _RUNS):
            yield _Drawn(int(number), agent, f".{suffix}" == _WAITS)


def _counts(path: Path, *, is_handed_over: bool) -> bool:
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        since = os.fstat(descriptor).st_ctime
        if is_handed_over and 0 <= time.time() - since < _HANDED_OVER_WITHIN_S:
            return True
        with suppress(OSError):
            os.unlink(path)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
