"""A person at a real terminal: types lines, and reads what is shown."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.commands import Command


class Terminal:
    """A command that runs in a terminal of its own."""

    def __init__(self, process: Command, master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read_until(self, text: str, timeout_s: float = 60) -> str:
        """What is shown up to a text, since the last call; an error if it never comes."""
        end = time.monotonic() + timeout_s
        while text not in self.shown:
            if time.monotonic() > end or not self._read(end - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown, but:\n{self.shown}")
        before, found, self.shown = self.shown.partition(text)
        return before + found

    def wait(self, timeout_s: float = 60) -> int:
        """The exit code; `shown` then has all the rest."""
        end = time.monotonic() + timeout_s
        while self._read(end - time.monotonic()):
            assert time.monotonic() < end, f"it does not end:\n{self.shown}"
        return self.process.wait(timeout_s)

    def _read(self, timeout_s: float) -> bool:
        """False at the end."""
        if not select.select([self._master], [], [], max(0.0, min(timeout_s, 0.2)))[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)


@contextmanager
def at_terminal(
    folder: Path, surroundings: Mapping[str, str], *arguments: str
) -> Iterator[Terminal]:
    """Start a command at a terminal; it is killed if it outlives the block."""
    master, slave = pty.openpty()
    process = Command(
        *arguments,
        cwd=folder,
        env={**os.environ, **surroundings, "NO_COLOR": "1", "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        at_terminal=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        with suppress(OSError):
            os.close(master)
