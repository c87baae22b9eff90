"""What the keeper and its clients agree on: names of files, messages, the journal, the locks.

The journal (`RUN/keeper/journal`) is the truth. One line per fact, `CRC KIND ATTEMPT JSON`, each
made durable before anybody hears of it:

    open   - {"token": …}      the first line; the token marks the environment of our programs
    claim  A {"at": …}         point of no return: without it A never started, with it never again
    exit   A {"code": …, …}    how A ended (the fields of `client.Exit`)
    lost   A {"reason": …}     A was claimed, its keeper is gone, and nothing of A is alive

Space is reserved ahead, so the file ends in zero bytes; a torn last line is dropped on reading.
Requests travel over a socket and never touch the disk: they carry the values of secrets.
"""

from __future__ import annotations

import binascii
import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any

VERSION = 1
FOLDER = "keeper"
JOURNAL = "journal"
SOCKET = "socket"
LOG = "log"
KEEPER_LOCK = "keeper.lock"
# Held (shared) by every warden: while it is held, programs of a dead keeper may still be ending.
WARDEN_LOCK = "wardens.lock"
MARKER = "ORCHESTRATE_ATTEMPT"
ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,199}\Z")

# Output up to this size travels in the exit record and needs no sync of its own.
INLINE_LIMIT = 8192
# No exit record is longer: two inlined streams, each byte at worst `\udcXX`, and the rest.
LONGEST_RECORD = 2 * 6 * INLINE_LIMIT + 8192
_RESERVE_STEP = 1 << 18
_FRAME_LIMIT = 1 << 30

Message = dict[str, Any]


def now() -> float:
    """Seconds on a clock that never jumps and, where there is one, counts suspended time too."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def encode(message: Message) -> bytes:
    """A message as it is sent: four bytes of length, then JSON in ASCII."""
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(4, "big") + body


class Frames:
    """Messages cut out of a stream of bytes."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        self._pending += data
        while len(self._pending) >= 4:
            end = 4 + int.from_bytes(self._pending[:4], "big")
            if end > _FRAME_LIMIT:
                raise ValueError("a message is too long")
            if len(self._pending) < end:
                return
            body = bytes(self._pending[4:end])
            del self._pending[:end]
            yield json.loads(body)


def write_all(fd: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync(fd: int) -> None:
    """Make a file's content durable (macOS has no fdatasync)."""
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def text_of(data: bytes) -> str:
    """Bytes as text that JSON can carry and `bytes_of` takes back, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# Locks. `flock` belongs to an open file, so a kill frees it at once, and no pid can be confused.


def open_lock(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def take_lock(path: str, *, shared: bool = False, patience_s: float = 0.0) -> int | None:
    """The descriptor that holds the lock, or None if somebody else holds on to it."""
    fd = open_lock(path)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    give_up = now() + patience_s
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return fd
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                os.close(fd)
                raise
        if now() >= give_up:
            os.close(fd)
            return None
        time.sleep(0.005)


def is_locked(path: str, *, also_shared: bool = False) -> bool:
    """Does anybody hold the lock? Asked by taking it for an instant, so takers must be patient."""
    if not os.path.exists(path):
        return False
    fd = take_lock(path, shared=not also_shared)
    if fd is not None:
        os.close(fd)
    return fd is None


# The journal.


def _line(kind: str, attempt: str, data: Message) -> bytes:
    body = json.dumps(data, allow_nan=False, separators=(",", ":"))
    rest = f"{kind} {attempt} {body}".encode("ascii")
    return b"%08x %b\n" % (binascii.crc32(rest), rest)


def read_lines(path: str) -> tuple[list[tuple[bytes, bytes, bytes]], int]:
    """All whole records as (kind, attempt, JSON), and the offset where they end."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return [], 0
    records: list[tuple[bytes, bytes, bytes]] = []
    end = 0
    for line in content.split(b"\n"):
        rest = line[9:]
        if len(line) < 10 or line[:8] != b"%08x" % binascii.crc32(rest):
            break  # reserved space, or a line that a crash tore
        kind, attempt, body = rest.split(b" ", 2)
        records.append((kind, attempt, body))
        end += len(line) + 1
    # A torn line may lack only its newline.
    return (records, end) if end <= len(content) else (records[:-1], end - len(line) - 1)


class Journal:
    """The writing side of the journal: one writer, the holder of the keeper's lock."""

    def __init__(self, path: str) -> None:
        records, self._end = read_lines(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.ftruncate(self._fd, self._end)
        self._reserved = self._end
        self._failed = False
        self.claimed = {a.decode() for kind, a, _ in records if kind == b"claim"}
        settled = {a.decode() for kind, a, _ in records if kind in (b"exit", b"lost")}
        self.unsettled = self.claimed - settled
        tokens = [json.loads(body)["token"] for kind, _, body in records if kind == b"open"]
        self.token: str = tokens[0] if tokens else os.urandom(16).hex()
        if not tokens:
            self.reserve(1)
            self.append("open", "-", {"token": self.token})
            os.fsync(self._fd)
            sync_folder(os.path.dirname(path) or ".")

    def reserve(self, records: int) -> None:
        """Make sure that so many records of any size will fit, or raise while nothing is lost."""
        needed = self._end + records * LONGEST_RECORD
        if needed > self._reserved:
            ahead = needed + _RESERVE_STEP - self._reserved
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, self._reserved, ahead)
            self._reserved += ahead

    def append(self, kind: str, attempt: str, data: Message) -> None:
        """Record a fact durably. After a failed sync nothing more is recorded: disks lie then."""
        if self._failed:
            raise OSError(errno.EIO, "the journal could not be written earlier")
        line = _line(kind, attempt, data)
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._fd, line[written:], self._end + written)
            sync(self._fd)
        except OSError:
            self._failed = True
            raise
        self._end += len(line)
        if kind == "claim":
            self.claimed.add(attempt)
