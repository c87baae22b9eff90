"""A program's hold on its slot: a lock on the ticket that its orchestrator has drawn for it.

The process that started the program may be gone; the slot is taken as long as the program runs, and
free in the instant in which that has ended, or its warden is killed. `state/slots` is the other
side.
"""

from __future__ import annotations

import errno
import fcntl
import os

# A ticket's file ends so when its call may run, and when its program does.
_RUNS, _HELD = b".runs", b".held"


class HeldSlot:
    """The slot of one attempt; nothing where it needs none."""

    def __init__(self, ticket: bytes) -> None:
        self._path = b""
        self._fd = -1
        if ticket:
            self._take_over(ticket)

    def _take_over(self, ticket: bytes) -> None:
        """Beside the orchestrator, which lets go when it sees the new name."""
        try:
            self._fd = os.open(ticket, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            self._path = ticket.removesuffix(_RUNS) + _HELD
            os.rename(ticket, self._path)
        except OSError as error:
            # A disk without locks or room: a program that may run is not held up for that.
            if error.errno not in (errno.ENOENT, errno.ENOSPC, errno.ENOLCK, errno.EACCES):
                os.write(2, f"slot {os.fsdecode(ticket)}: {error}\n".encode())

    def release(self) -> None:
        path, self._path = self._path, b""
        if path:
            _remove(path)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _remove(path: bytes) -> None:
    """Without a word if that fails: the lock is what counts."""
    try:
        os.unlink(path)
    except OSError:
        return
