"""What the keeper and its clients agree on: names of files, messages, requests, locks, the clock.

A message is a line of words and a body of bytes, with four bytes of length before both:

    client to keeper                        keeper to client
    start A PLAIN + request                 hello VERSION PID follow slots, first
    run A PLAIN   + request                 start A started            (not for `run`)
    follow A B    + request                 follow B claimed           right before A's exit
    watch A                                 start|run A known 1|0      1: it runs
    stop A GRACE  + reason                  start|run A refused        + why
    renew A UNTIL                           renew A 1|0                1: it runs
    shutdown 1|0  + reason                  watch A 1|0                1: it runs
    about                                   about - 1|0                1: ends whole trees
                                            exit|lost A                + the record
    keeper to warden                        warden to keeper
    prepare A     + request                 exit A                     + the record
    go, drop
    stop A GRACE  + reason
    renew A UNTIL

`follow`: B is to be claimed with the exit of A and started, if A ends well; B `-` takes it back.
The keeper looks at the words only and passes bodies on. Requests never touch the disk: they carry
the values of secrets. No JSON is read on the keeper's side: the module takes as long to import as
Python to start (`standard` is about that, too).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = 4
# Said in the first words; older keepers do not know the order.
TAKES_FOLLOWERS = "follow"
TAKES_SLOTS = "slots"
FOLDER = "keeper"
JOURNAL = "journal"
SOCKET = "socket"
LOG = "log"
KEEPER_LOCK = "keeper.lock"
# Held (shared) by every warden: while it is held, programs of a dead keeper may still be ending.
WARDEN_LOCK = "wardens.lock"
# Why it starts none any more.
KEEPER_ENDING = "the keeper is shutting down"
# What marks the programs of a run, and of a run that another run's program started (`identity`).
KEEPER_MARKER = "ORCHESTRATE_KEEPER"
MARKER = "ORCHESTRATE_ATTEMPT"
WITHIN = "ORCHESTRATE_WITHIN"

# Output up to this size travels in the exit record and needs no sync of its own.
INLINE_LIMIT = 8192
_FRAME_LIMIT = 1 << 30

# The fields of a request, in order. What is missing is empty; `stdin` is `/` and a path, or `=`
# and the text; `secrets`, `env` (names and values in turn) and `argv` are packed lists.
# `lease_until` is a time of `now`; a request without one ends before it, as older keepers expect.
# `slot` is the path of a ticket; only keepers that say so take it.
REQUEST_FIELDS = (
    "cwd",
    "stdout_path",
    "stderr_path",
    "tee_path",
    "tee_root",
    "stdin",
    "timeout_s",
    "silence_s",
    "grace_s",
    "guarded",
    "secrets",
    "env",
    "argv",
    "lease_until",
    "slot",
)


class Refused(Exception):
    """Something that a keeper cannot do; the text is for the client."""


def now() -> float:
    """Seconds on a clock that never jumps and, where there is one, counts suspended time too."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def encode(words: str, body: bytes = b"") -> bytes:
    """A message as it is sent."""
    head = words.encode("ascii")
    return b"%b%b\n%b" % ((len(head) + 1 + len(body)).to_bytes(4, "big"), head, body)


class Frames:
    """Messages, as words and body, cut out of a stream of bytes."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[tuple[list[str], bytes]]:
        messages: list[tuple[list[str], bytes]] = []
        pending = self._pending
        if not pending and len(data) >= 4 and 4 + int.from_bytes(data[:4], "big") == len(data):
            # Mostly it is just one message, and whole.
            head, _, body = data[4:].partition(b"\n")
            return [(head.decode("ascii").split(" "), body)]
        pending += data
        while len(pending) >= 4:
            end = 4 + int.from_bytes(pending[:4], "big")
            if end > _FRAME_LIMIT:
                raise ValueError("a message is too long")
            if len(pending) < end:
                break
            head, _, body = bytes(pending[4:end]).partition(b"\n")
            del pending[:end]
            messages.append((head.decode("ascii").split(" "), body))
        return messages


def pack(fields: Iterable[bytes]) -> bytes:
    """Any strings of bytes as one, which `unpack` takes apart."""
    return b"".join([b"%b%b" % (len(field).to_bytes(4, "big"), field) for field in fields])


def unpack(data: bytes) -> list[bytes]:
    fields = []
    end = 0
    while end < len(data):
        start = end + 4
        end = start + int.from_bytes(data[end:start], "big")
        fields.append(data[start:end])
    return fields


def text_of(data: bytes) -> str:
    """Bytes as text that `bytes_of` takes back, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, out of some agent's JSON
        return text.encode("utf-8", "surrogatepass")


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


# Locks. `flock` belongs to an open file, so a kill frees it at once, and no pid can be confused.


def open_lock(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def take_lock(path: str, *, shared: bool = False, patience_s: float = 0.0) -> int | None:
    """The descriptor that holds the lock, or None if another process holds on to it."""
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
    """Is the lock held? Asked by taking it for an instant, so takers must be patient."""
    if not os.path.exists(path):
        return False
    fd = take_lock(path, shared=not also_shared)
    if fd is not None:
        os.close(fd)
    return fd is None


def lock_holder(path: str) -> int | None:
    """The process that has taken the lock, where the kernel tells (Linux)."""
    found = os.stat(path)
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    for words in lines:
        if words[1] == "FLOCK" and words[5] == f"{device}:{found.st_ino}" and words[4] != "0":
            return int(words[4])
    return None
