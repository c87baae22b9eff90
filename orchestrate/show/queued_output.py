"""Output that waits in memory for a slow reader, so that a reader that stalls stops no work."""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import suppress

from orchestrate.errors import ConfigError
from orchestrate.show.output import (
    STALLED,
    OutputClosed,
    answer,
    encoded_answer,
    finish_output,
    give_up_output,
    note,
    output_fault,
)

# As much as an hour of a busy run; a reader that lags further behind reads the journal instead.
MOST_BYTES = 16 * 1024 * 1024
# How long a reader may take nothing once there is no more to come.
_LAST_PATIENCE_S = 10.0
_POLL_S = 0.25
_WAY_OUT = "all of it is on record: orchestrate logs RUN --events"


class QueuedOutput:
    """Lines for stdout, written by a thread of their own as fast as they are read.

    What a pipe has room for can be written without blocking, in pieces of its smallest room: so the
    thread can always be ended, whatever the reader does.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_read = True
        self._thread = threading.Thread(target=self._write_all, name="events", daemon=True)
        self._descriptor = _descriptor_of_stdout()
        if self._descriptor is not None:
            finish_output()
            # A machine that has no room for another thread writes as any program does.
            with suppress(RuntimeError):
                self._thread.start()

    def write(self, text: str) -> None:
        """Never blocks; a reader who is too far behind gets nothing more."""
        if not self._is_read:
            return
        if self._thread.ident is None:
            try:
                answer(text)
                finish_output()
            except (OutputClosed, ConfigError) as error:
                self._give_up(error)
            return
        with self._changed:
            self._waiting += encoded_answer(text)
            is_too_much = len(self._waiting) > MOST_BYTES
            self._changed.notify()
        if is_too_much:
            note(f"orchestrate: {STALLED}; the run goes on\n")
            self._stall()

    def close(self, patience_s: float = _LAST_PATIENCE_S) -> None:
        """Let the reader have the rest, as long as it takes some of it."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        left = -1
        while self._thread.is_alive():
            self._thread.join(patience_s)
            with self._changed:
                is_stalled = left == len(self._waiting)
                left = len(self._waiting)
            if is_stalled and self._thread.is_alive():
                self._stall()

    def _stall(self) -> None:
        if self._is_read:
            self._give_up(ConfigError(STALLED, _WAY_OUT))

    def _give_up(self, error: OutputClosed | ConfigError) -> None:
        with self._changed:
            self._is_read = False
            self._waiting.clear()
            self._changed.notify()
        give_up_output(error)

    def _write_all(self) -> None:
        assert self._descriptor is not None
        room = select.poll()
        room.register(self._descriptor, select.POLLOUT)
        while True:
            with self._changed:
                while self._is_read and not self._waiting and not self._is_closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                piece = bytes(self._waiting[: select.PIPE_BUF])
            if not room.poll(_POLL_S * 1000):
                continue
            try:
                written = os.write(self._descriptor, piece)
            except OSError as error:
                self._give_up(output_fault(error))
                return
            with self._changed:
                del self._waiting[:written]


def _descriptor_of_stdout() -> int | None:
    """None where stdout is not a file of the system's, as in a test."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None
