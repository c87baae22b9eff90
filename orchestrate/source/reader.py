"""Opening a definition file without being fooled: regular files only, capped, UTF-8."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orchestrate.source.located import Source

MAX_BYTES = 10 * 1024 * 1024


class ReadFault(Exception):
    """A file that cannot become text or data; `line` and `column` count from zero.

    A `length` of 0 means the token that stands there.
    """

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        line: int = 0,
        column: int = 0,
        length: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column
        self.length = length
        self.source: Source | None = None


def read_source(path: Path, display: str) -> Source:
    """The file's text; raises `ReadFault` for anything that is not a sane text file."""
    raw = _read_bytes(path)
    source = Source(display, path, "")
    try:
        source.text = _decode(raw)
    except ReadFault as fault:
        source.text = raw.decode("latin-1") if fault.code == "E004" and fault.line else ""
        fault.source = source
        raise
    return source


def _read_bytes(path: Path) -> bytes:
    # O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise ReadFault("E001", "there is no such file") from None
    except PermissionError:
        raise ReadFault("E001", "permission denied", "make the file readable") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ReadFault("E001", f"cannot be opened: {reason}") from None
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ReadFault("E002", "is a folder, not a file", "name a file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise ReadFault("E002", "is not a regular file", "name an ordinary text file")
        if status.st_size > MAX_BYTES:
            size = f"{status.st_size / 1024 / 1024:.0f} MB"
            raise ReadFault("E003", f"is too large ({size}; the limit is 10 MB)", _SPLIT_HINT)
        return _read_all(descriptor)
    except OSError as error:
        raise ReadFault("E001", f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


_SPLIT_HINT = "split it, or move long texts into .md files and $include them"


def _read_all(descriptor: int) -> bytes:
    # A file in /proc says that it has no size, and any file may grow while we read it.
    chunks, total = [], 0
    while chunk := os.read(descriptor, 1 << 20):
        total += len(chunk)
        if total > MAX_BYTES:
            raise ReadFault("E003", "is too large (the limit is 10 MB)", _SPLIT_HINT)
        chunks.append(chunk)
    return b"".join(chunks)


def _decode(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ReadFault("E004", "is UTF-16 text", "save it as UTF-8")
    if b"\0" in raw:
        raise ReadFault("E004", "is a binary file (it has a NUL byte)", "name a text file")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start)
        begin = raw.rfind(b"\n", 0, error.start) + 1
        column = len(raw[begin : error.start].decode("utf-8", "replace"))
        raise ReadFault(
            "E004",
            f"is not UTF-8: byte 0x{raw[error.start]:02x} cannot be read",
            "save it as UTF-8 (it may be Latin-1 or Windows-1252)",
            line,
            column,
        ) from None
    return text.removeprefix("\ufeff")
