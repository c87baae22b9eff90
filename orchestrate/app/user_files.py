"""Writes the files that a user names on the command line, into whatever stands at that place."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from orchestrate.errors import ConfigError
from orchestrate.state.durable import sync_all, write_out

# How long a reader of a pipe may take to come.
_READER_S = 10.0
_POLL_S = 0.05
_BLOCK = 1 << 16
# What is open already is reached by these; it is added to, as a shell does with `>&1`.
_OPEN_ALREADY = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")


def write_named(path: str, mark: str, fill: Callable[[BinaryIO], object], what: str = "") -> None:
    """Let the file at `path` hold what `fill` writes.

    A regular file is replaced whole, so that its readers see the old one or the new one; a link
    stays, and what it leads to is written. A device or a pipe is written into, never replaced.
    `mark` tells the temporary file of one writer from that of another.
    """
    try:
        if _is_regular(path):
            _replace(Path(os.path.realpath(path)), mark, fill)
        else:
            _write_into(path, fill)
    except OSError as error:
        raise ConfigError(f"cannot write {what}{path}: {error.strerror or error}") from error


def _is_regular(path: str) -> bool:
    """Also where nothing is yet; what is open already must stay the file that it is."""
    if os.path.abspath(path).startswith(_OPEN_ALREADY):
        return False
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True


def _replace(target: Path, mark: str, fill: Callable[[BinaryIO], object]) -> None:
    temporary = target.with_name(f".{target.name[:150]}.{mark}.tmp")
    try:
        # What a killed writer of the same mark has left.
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            fill(file)
            file.flush()
            sync_all(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _write_into(path: str, fill: Callable[[BinaryIO], object]) -> None:
    import tempfile

    # Made whole first: what is filled in may be written to and fro, which a pipe cannot do.
    with tempfile.TemporaryFile() as whole:
        fill(whole)
        whole.seek(0)
        descriptor = _open_existing(path)
        try:
            while block := whole.read(_BLOCK):
                write_out(descriptor, block)
        finally:
            os.close(descriptor)


def _open_existing(path: str) -> int:
    """Open what is there; a pipe without a reader is waited for, but not for ever."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    deadline = time.monotonic() + _READER_S
    while True:
        try:
            descriptor = os.open(path, flags)
        except OSError as error:
            is_unread = error.errno == errno.ENXIO and stat.S_ISFIFO(os.stat(path).st_mode)
            if not is_unread:
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "no process reads this pipe") from None
            time.sleep(_POLL_S)
            continue
        os.set_blocking(descriptor, True)
        return descriptor
