"""A terminal of a chosen size in front of a command, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent

import pyte

from tests.commands import Command

PATIENCE_S = 90.0
# What tests say about the surroundings; a developer's own must not change what is drawn.
_NOT_PASSED_ON = ("CI", "NO_COLOR", "COLORTERM", "COLUMNS", "LINES", "ORCHESTRATE_LIVE", "BUILD_ID")


class Display:
    """A command on a pseudo terminal, and what its screen shows."""

    def __init__(self, process: subprocess.Popen[str], master: int, size: tuple[int, int]) -> None:
        self.process = process
        self.raw = b""
        self._master = master
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def lines(self) -> list[str]:
        """The screen as it is, without what is empty at its end."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")

    @property
    def shown(self) -> str:
        """The screen with what differs from run to run masked."""
        return masked("\n".join(self.lines))

    @property
    def cursor(self) -> tuple[int, int, bool]:
        """Column, row, and whether it can be seen."""
        at = self._screen.cursor
        return at.x, at.y, not at.hidden

    @property
    def wraps(self) -> bool:
        """Does the terminal wrap long lines, as it did before?"""
        return pyte.modes.DECAWM in self._screen.mode

    def colours(self) -> set[str]:
        """The colours of all characters on the screen."""
        cells = (cell for row in self._screen.buffer.values() for cell in row.values())
        return {cell.fg for cell in cells if cell.data.strip()}

    def await_screen(self, expected: str) -> None:
        """Wait until the whole screen is as expected."""
        wanted = dedent(expected).strip("\n")
        end = time.monotonic() + PATIENCE_S
        while self.shown != wanted:
            left = end - time.monotonic()
            assert left > 0, f"not this screen:\n{wanted}\nbut:\n{self.shown}"
            assert self.read(min(left, 0.1)), f"it ended with:\n{self.shown}\nbefore:\n{wanted}"

    def await_words(self, *words: str) -> None:
        """Wait until the words are on the screen, all at once."""
        self.await_that(lambda: all(word in self.shown for word in words), f"{words}")

    def await_that(self, holds: Callable[[], bool], wanted: str = "what was waited for") -> None:
        """Wait until something holds for the screen; a busy machine may draw it in parts."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            left = end - time.monotonic()
            assert left > 0, f"{wanted} is not on the screen:\n{self.shown}"
            assert self.read(min(left, 0.1)), f"it ended before {wanted}:\n{self.shown}"

    def await_no(self, words: str) -> None:
        """Wait until the words are no longer on the screen."""
        end = time.monotonic() + PATIENCE_S
        while words in self.shown:
            assert time.monotonic() < end, f"{words} is still on the screen:\n{self.shown}"
            assert self.read(0.1), f"it ended with {words}:\n{self.shown}"

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        set_size(self._master, columns, rows)

    def read(self, patience_s: float) -> bool:
        """Take what there is; False when the command has ended and all of it was taken."""
        has_ended = self.process.poll() is not None
        if not select.select([self._master], [], [], 0 if has_ended else patience_s)[0]:
            return not has_ended
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def read_for(self, seconds: float) -> bytes:
        """What comes within a time."""
        before = len(self.raw)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.read(left):
            pass
        return self.raw[before:]

    def finish(self) -> int:
        """Read until the command has ended; its exit code."""
        end = time.monotonic() + PATIENCE_S
        while self.read(0.1):
            assert time.monotonic() < end, f"it does not end:\n{self.shown}"
        return self.process.wait(PATIENCE_S)

    def hang_up(self) -> None:
        """Close the terminal's window."""
        os.close(self._master)
        self._master = -1

    def close(self) -> None:
        if self._master >= 0:
            self.hang_up()


@contextmanager
def display(
    folder: Path,
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    environment: Mapping[str, str] | None = None,
    start: str = "",
) -> Iterator[Display]:
    """Start a command at a terminal, or a script that becomes one; it ends with the block."""
    master, slave = pty.openpty()
    set_size(master, *size)
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    env = {**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1", **(environment or {})}
    if start:
        script = [sys.executable, "-c", start, *arguments]
        process = subprocess.Popen(
            script, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave,
            text=True, start_new_session=True,
        )  # fmt: skip
    else:
        process = Command(
            *arguments, cwd=folder, env=env, stdin=slave, stdout=slave, stderr=slave,
            at_terminal=True,
        )  # fmt: skip
    os.close(slave)
    shown = Display(process, master, size)
    try:
        yield shown
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_S)
        with suppress(OSError):
            shown.close()


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


_MASKS = (
    (re.compile(r"\b\d{8}T\d{6}Z-[a-z0-9]{6}\b"), "RUN"),
    (re.compile(r"\bprocess \d+"), "process N"),
    (re.compile(r"\b(?:\d+h\d\dm\d\ds|\d+m\d\ds|\d+(?:\.\d)?s)(?!\w)"), "#s"),
)


def masked(text: str) -> str:
    for pattern, stand_in in _MASKS:
        text = pattern.sub(stand_in, text)
    return text
