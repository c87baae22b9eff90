"""A request to stop: a signal sets it, everything that waits notices it at once."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from orchestrate.exits import Ending, of_signal, stopped_by
from orchestrate.interrupts import ASKED_TO_STOP, hear, raise_dropped

# What is sent to end a run, by name, with how impatient the second one is.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# How long programs may clean up after themselves (Claude Code needs up to 1.6 s).
GRACE_S = 5.0
# Python calls a handler between two instructions of its own: a signal that comes just before a
# system call that waits interrupts nothing, and would be noticed at its end. So no wait is long.
LONGEST_NAP_S = 1.0


class Stop:
    """Set by the first signal; a second interrupt makes it urgent."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_urgent = False
        self.usual_grace_s = GRACE_S
        self.on_request: list[Callable[[], None]] = []
        self._read, self._write = os.pipe()
        for descriptor in (self._read, self._write):
            os.set_blocking(descriptor, False)

    @property
    def is_requested(self) -> bool:
        return self.signal is not None

    @property
    def grace_s(self) -> float:
        return 0.0 if self.is_urgent else self.usual_grace_s

    @property
    def ending(self) -> Ending:
        """How the run ends that was asked to stop."""
        return stopped_by(self.signal or signal.SIGINT)

    @property
    def reason(self) -> str:
        return self.ending.reason

    def request(self, number: int) -> None:
        """Called from a signal handler: no locks, nothing that waits."""
        self.is_urgent = self.signal is not None
        self.signal = self.signal or number
        with suppress(OSError):
            os.write(self._write, b"!")
        for tell in self.on_request:
            tell()

    def rest(self, seconds: float) -> bool:
        """Sleep; True if a stop was requested meanwhile."""
        until = time.monotonic() + seconds
        while seconds > 0 and not self.is_requested:
            poll = select.poll()
            poll.register(self._read, select.POLLIN)
            # The byte stays in the pipe: the next sleeper is to notice it too.
            poll.poll(min(seconds, LONGEST_NAP_S) * 1000)
            seconds = until - time.monotonic()
        return self.is_requested

    def wait_for(self, descriptor: int, seconds: float | None) -> bool:
        """Wait until something can be read; False if the time is up or a stop was requested."""
        if self.is_requested:
            return False
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        poll.register(descriptor, select.POLLIN)
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            left = LONGEST_NAP_S if until is None else until - time.monotonic()
            found = [ready for ready, _ in poll.poll(min(max(left, 0), LONGEST_NAP_S) * 1000)]
            if found or left <= 0:
                return self._read not in found and descriptor in found

    def leave(self) -> None:
        """If a stop was requested, end the command by it: nothing was begun that has an end."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(of_signal(self.signal))

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


@contextmanager
def listening(stop: Stop) -> Iterator[None]:
    """Let signals request a stop as long as the block runs; only the main thread hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(number: int, _: FrameType | None) -> None:
        stop.request(number)

    numbers = [getattr(signal, name) for name in SIGNALS]
    # A signal that our starter ignores (nohup) stays ignored.
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heard}
    outer = signal.signal(ASKED_TO_STOP, lambda *_: stop.request(signal.SIGINT))
    # Sent while we were at work, it may reach us when we are done: that is no reason to die of it.
    before[ASKED_TO_STOP] = _let_pass if outer in (signal.SIG_DFL, hear) else outer
    try:
        raise_dropped()
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _let_pass(*_: object) -> None:
    """A handler, so that no program that is started inherits an ignored signal."""
