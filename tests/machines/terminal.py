"""A real terminal with nobody but a test in front of it."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.commands import Command

_PATIENCE_S = 60.0


class Terminal:
    """A command on a pseudo terminal, which is its controlling one: Ctrl-C reaches it there."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.process = Command(
            *arguments, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave,
            at_terminal=True,
        )  # fmt: skip
        self._slave = slave
        self._shown = b""
        self._heard = 0
        self._is_open = True

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def shown(self) -> str:
        """All that the terminal has shown so far."""
        return self._shown.decode("utf-8", "replace").replace("\r\n", "\n")

    def await_words(self, words: str) -> None:
        """Wait until the words are shown, behind those that were waited for before."""
        end = time.monotonic() + _PATIENCE_S
        while (found := self.shown.find(words, self._heard)) < 0:
            assert time.monotonic() < end, f"{words!r} was never shown:\n{self.shown}"
            assert self._read(0.1), f"it ended before {words!r}:\n{self.shown}"
        self._heard = found + len(words)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def finish(self) -> str:
        """Read until the command has ended; all that it has shown."""
        end = time.monotonic() + _PATIENCE_S
        while self._read(0.1):
            assert time.monotonic() < end, f"it does not end:\n{self.shown}"
        self.process.wait(timeout=_PATIENCE_S)
        return self.shown

    def hang_up(self) -> None:
        """Close the terminal's window."""
        if self._is_open:
            self._is_open = False
            os.close(self._master)
            os.close(self._slave)

    def _read(self, patience_s: float) -> bool:
        """Take what there is; False when the command has ended and all of it was taken."""
        has_ended = self.process.poll() is not None
        if not select.select([self._master], [], [], 0 if has_ended else patience_s)[0]:
            return not has_ended
        self._shown += os.read(self._master, 65536)
        return True
