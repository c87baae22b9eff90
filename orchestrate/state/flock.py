"""`flock` on a file, without any way around it: where that does not work there is no lock.

The kernel frees it with the last process that has the file open, after a `kill -9` too; so a fork
of this process closes it at once. filelock does the same, but its import takes as long as ten quick
steps (ADR 0021).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from weakref import WeakSet

# A lock's file is never a link, and no program that we start has it open. O_NONBLOCK: what was put
# in its place may be a FIFO.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TAKEN = (errno.EAGAIN, errno.EACCES)


class Flock:
    """A lock that is held until it is released or forgotten."""

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _HELD.add(self)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        _HELD.discard(self)
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = release


_HELD: WeakSet[Flock] = WeakSet()


def _let_go_in_fork() -> None:
    for held in list(_HELD):
        held.release()


os.register_at_fork(after_in_child=_let_go_in_fork)


def acquire(path: Path, patience_s: float, poll_s: float) -> Flock | None:
    """The lock, or None if another has it all the time; `OSError` where locks do not work."""
    give_up = time.monotonic() + patience_s
    while True:
        descriptor = os.open(path, _FLAGS, 0o600)
        try:
            if _is_taken_by_us(descriptor):
                held, descriptor = Flock(descriptor), -1
                return held
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if time.monotonic() >= give_up:
            return None
        time.sleep(poll_s)


def _is_taken_by_us(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    # A file that was removed since it was opened guards nothing: the next process makes another.
    return os.fstat(descriptor).st_nlink > 0
