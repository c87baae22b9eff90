"""Copies logs to stdout: as they are for a program, made safe for a terminal; all or the end."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from orchestrate.cli.output import answer, answer_bytes, finish_output
from orchestrate.plan.visible import visible

_BLOCK = 64 * 1024


class Printer:
    """Prints bytes as they come; a character may arrive in two pieces."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_mid_line = False

    @property
    def is_for_people(self) -> bool:
        return self._is_terminal

    def print(self, data: bytes) -> None:
        if not self._is_terminal:
            answer_bytes(data)
            return
        text = self._decoder.decode(data).replace("\r\n", "\n").replace("\t", "    ")
        answer("\n".join(visible(line) for line in text.split("\n")))
        if text:
            self._is_mid_line = not text.endswith("\n")

    def end_line(self) -> None:
        """At a terminal, do not leave what follows on the last line of an output without an end."""
        if self._is_mid_line:
            answer("\n")
            self._is_mid_line = False

    def flush(self) -> None:
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
    return offset


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
