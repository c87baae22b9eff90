"""Copies logs to stdout: made safe to show, or as they are (`--raw`); all of them or the end."""

from __future__ import annotations

import codecs
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from orchestrate.plan.visible import visible, visible_lines
from orchestrate.show.output import answer, answer_bytes, answer_text, finish_output, wants_raw

_BLOCK = 64 * 1024


class Printer:
    """Prints bytes as they come; a character may arrive in two pieces."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._is_raw = wants_raw() and not self._is_terminal
        # A program that reads it is to lose nothing but the power of what is in it.
        errors = "replace" if self._is_terminal else "backslashreplace"
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)
        self._ends_in_return = False
        self._is_mid_line = False

    @property
    def is_for_people(self) -> bool:
        return self._is_terminal

    def print(self, data: bytes) -> None:
        if self._is_raw:
            answer_bytes(data)
            return
        text = "\r" * self._ends_in_return + self._decoder.decode(data)
        # It may be half of a line's end, of which the rest is in the next piece.
        self._ends_in_return = text.endswith("\r")
        self._show(visible_lines(text.removesuffix("\r")))

    def _show(self, text: str) -> None:
        if self._is_terminal:
            answer(text.replace("\t", "    "))
        else:
            answer_text(text)
        if text:
            self._is_mid_line = not text.endswith("\n")

    def finish(self) -> None:
        """Nothing more comes of this source for now."""
        if self._ends_in_return:
            self._show(visible("\r"))
            self._ends_in_return = False

    def end_line(self) -> None:
        """Do not leave what follows on the last line of an output that has no end, except raw."""
        if self._is_mid_line:
            answer("\n")
            self._is_mid_line = False

    def flush(self) -> None:
        self.finish()
        finish_output()


def print_source(
    printer: Printer, source: Path | bytes, start: int = 0, last_lines: int | None = None
) -> int:
    """Print from an offset on, or the last lines; says where it ends now."""
    with open_source(source) as opened:
        size = opened.seek(0, os.SEEK_END)
        # A file that has become shorter was begun anew.
        offset = start if start <= size else 0
        if last_lines is not None:
            offset = max(offset, start_of_last(opened, size, last_lines))
        opened.seek(offset)
        while offset < size and (data := opened.read(min(_BLOCK, size - offset))):
            printer.print(data)
            offset += len(data)
    printer.finish()
    return offset


def print_lines(printer: Printer, lines: Iterator[str], last_lines: int | None = None) -> int:
    """Print lines as they are made, or the last of them; says how many that were."""
    printed = 0
    for line in lines if last_lines is None else deque(lines, maxlen=last_lines):
        printer.print(line.encode("utf-8", "backslashreplace") + b"\n")
        printed += 1
    return printed


def read_source(source: Path | bytes, last_lines: int | None, start: int = 0) -> str:
    """The same as text, for a JSON document."""
    with open_source(source) as opened:
        size = opened.seek(0, os.SEEK_END)
        if last_lines is not None:
            start = max(start, start_of_last(opened, size, last_lines))
        opened.seek(start)
        return opened.read().decode("utf-8", "backslashreplace")


@contextmanager
def open_source(source: Path | bytes) -> Iterator[BinaryIO]:
    """The source as a file; one that is gone by now is empty."""
    if isinstance(source, bytes):
        yield BytesIO(source)
        return
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        yield BytesIO()
        return
    with open(descriptor, "rb") as opened:
        yield opened


def start_of_last(opened: BinaryIO, size: int, lines: int) -> int:
    """Where the last lines begin; costs what they cost, however long the file is."""
    offset = size
    wanted = lines
    while offset > 0:
        start = max(0, offset - _BLOCK)
        opened.seek(start)
        block = opened.read(offset - start)
        end = len(block)
        if offset == size and block.endswith(b"\n"):
            # The newline at the very end begins no line.
            end -= 1
        while wanted > 0 and (found := block.rfind(b"\n", 0, end)) >= 0:
            wanted -= 1
            end = found
            if wanted == 0:
                return start + found + 1
        offset = start
    return 0 if lines else size
