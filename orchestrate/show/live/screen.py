"""The terminal of stderr, written to without ever waiting for it.

A terminal that is stopped (Ctrl-S) takes nothing, and one that was closed refuses everything;
neither may hold up a run. So the terminal is opened once more for ourselves, where not waiting
concerns no other program: a shell shares the flags of the stderr that it gave us.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress

_USUAL = (80, 24)
# More than this unread is given up: the log has it.
_MOST_WAITING = 4 * 1024 * 1024


class Screen:
    """A terminal, with what it has not yet taken."""

    def __init__(self) -> None:
        self._given = sys.stderr.fileno()
        self._descriptor = _open_again(self._given)
        self._waiting = b""
        self.is_gone = False
        self.encoding = sys.stderr.encoding or "utf-8"

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows now; the usual ones where the terminal does not say."""
        try:
            columns, rows = os.get_terminal_size(self._given)
        except OSError:
            return _USUAL
        return (columns or _USUAL[0], rows or _USUAL[1])

    @property
    def is_clear(self) -> bool:
        """Has the terminal taken all that was written?"""
        return not self._waiting

    @property
    def is_in_front(self) -> bool:
        """May we draw? A job in the background would draw over another program's work."""
        try:
            return os.tcgetpgrp(self._given) == os.getpgrp()
        except OSError:
            return True

    def write(self, text: str) -> None:
        """Let the terminal take it, now or later."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting += text.encode(self.encoding, "backslashreplace")
        self.push()

    def push(self) -> None:
        """Write as much as the terminal takes at once."""
        while self._waiting and not self.is_gone:
            try:
                written = os.write(self._descriptor, self._waiting[:65536])
            except BlockingIOError:
                return
            except OSError:
                self.is_gone = True
                return
            self._waiting = self._waiting[written:]
        if self.is_gone:
            self._waiting = b""

    def go_below(self, lines: int) -> None:
        """Leave so many lines above; called from a signal handler, so nothing is kept for later."""
        if lines:
            down = f"\x1b[{lines - 1}B" if lines > 1 else ""
            with suppress(OSError):
                os.write(self._descriptor, f"{down}\r\n".encode())

    def finish(self, patience_s: float) -> None:
        """Wait a while for what is left to be taken."""
        end = time.monotonic() + patience_s
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        self.push()
        while self._waiting and (left := end - time.monotonic()) > 0:
            poll.poll(left * 1000)
            self.push()

    def close(self) -> None:
        if self._descriptor != self._given:
            os.close(self._descriptor)


def _open_again(given: int) -> int:
    """A descriptor of our own for the same terminal; the given one where that cannot be had."""
    try:
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(os.ttyname(given), flags)
    except OSError:
        return given
