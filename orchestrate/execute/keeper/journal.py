"""The keeper's journal, which is the truth: what was started, and how it ended.

One line per fact (`RUN/keeper/journal`), `CRC KIND ATTEMPT JSON`, each made durable before it is
announced; a line's checksum covers the file up to its own end:

    open   - {"token": …, "place": …}   the first line: what marks our programs (`identity`)
    copy   - {"token": …, "place": …}   from here on this is a copy's, with marks of its own
    boot   - {"token": …, "place": …}   from here on another boot's, with marks of its own
    gone   - {}                the run had a journal before this one, which was deleted
    claim  A {"at": …}         point of no return: without it A never started, with it never again
    exit   A {"code": …, …}    how A ended (the fields of `Exit` that say something)
    lost   A {"reason": …}     A was claimed, its keeper is gone, and nothing of A is alive
    torn   - {"bytes": …}      here stood something that cannot be read; it is gone now

Space is reserved ahead, so the file ends in zero bytes; a torn last line is dropped on reading. It
may have been a claim, and on a disk that forgets there may have been many: so the next keeper ends
whatever still runs and says `torn`, and an earlier attempt without a line counts as
lost, not as never started. So does one that was announced before a `copy` or `gone`.
"""

from __future__ import annotations

import binascii
import errno
import os

from orchestrate.execute.flat_json import json_of
from orchestrate.execute.keeper.protocol import INLINE_LIMIT, sync, sync_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from orchestrate.execute.flat_json import Scalar

# No exit record is longer: two inlined streams, each byte at worst `\udcXX`, and the rest.
LONGEST_RECORD = 2 * 6 * INLINE_LIMIT + 8192
_RESERVE_STEP = 1 << 18
_ZEROS = bytes(1 << 14)
# How many bytes are written ahead at most (`_write`).
_MOST_AHEAD = 1 << 16


def line_of(kind: str, attempt: str, body: bytes, before: int) -> bytes:
    """A record; its checksum goes on from that of the whole file before it."""
    rest = b"%b %b %b" % (kind.encode("ascii"), attempt.encode("ascii"), body)
    return b"%08x %b\n" % (binascii.crc32(rest, before), rest)


def read_facts(path: str, attempt: str) -> dict[str, bytes]:
    """What is recorded of an attempt: its kinds of records, and the JSON of each."""
    content = read_whole(path)
    found = {}
    for kind in ("claim", "exit", "lost"):
        start = f" {kind} {attempt} ".encode("ascii")
        place = content.find(start)
        # Some program may have printed the same, but a line begins only after a newline.
        while place >= 0 and content[place - 9 : place - 8] != b"\n":
            place = content.find(start, place + 1)
        if place >= 0:
            found[kind] = content[place + len(start) : content.index(b"\n", place)]
    return found


def attempts_in(path: str) -> tuple[set[str], set[str]]:
    """The attempts that were claimed, and those whose end is known."""
    return _attempts_of(read_whole(path))


def was_torn(path: str) -> bool:
    """Did a keeper find something in it that it could not read?"""
    return "torn" in breaks_in(path)


def breaks_in(path: str) -> set[str]:
    """What has come between this journal and what was recorded before: torn, gone, copy."""
    kinds = {line[9:14] for line in read_whole(path).split(b"\n")}
    return {name.decode("ascii").strip() for name in kinds & {b"torn ", b"gone ", b"copy "}}


def identity_in(body: bytes) -> tuple[str, str]:
    """Token and place as they were written down; '' for what is not there."""
    parts = body.split(b'"')
    found = dict(zip(parts[1::4], parts[3::4], strict=False))
    token, place = found.get(b"token", b""), found.get(b"place", b"")
    try:
        return token.decode("ascii"), place.decode("ascii") if place.count(b":") == 2 else ""
    except UnicodeDecodeError:
        return "", ""


def read_identity(path: str) -> tuple[str, str]:
    """Token and place that hold at the end of a journal."""
    content, torn = _read_both(path)
    return _identity_of(content) if content else (_token_in(torn), "")


def _identity_of(content: bytes) -> tuple[str, str]:
    start = max(_last(content, b" copy - "), _last(content, b" boot - "), 0)
    return identity_in(content[start : content.find(b"\n", start)])


def _last(content: bytes, kind: bytes) -> int:
    """Where the last record of a kind begins; some program may have printed the same."""
    place = content.rfind(kind)
    while place > 0 and content[place - 9 : place - 8] != b"\n":
        place = content.rfind(kind, 0, place)
    return place


def read_whole(path: str) -> bytes:
    """The journal as far as it is whole: without reserved space, without what a crash tore."""
    return _read_both(path)[0]


def _read_both(path: str) -> tuple[bytes, bytes]:
    """The whole part, and what is behind it that is neither whole nor nothing."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return b"", b""
    end = _end_of_whole(content)
    return content[:end], content[_end_of_zeros(content, end) :].rstrip(b"\0")


def _end_of_zeros(content: bytes, start: int) -> int:
    """Where whole blocks of reserved space end: to strip them byte by byte takes longer than all
    else that is looked at."""
    while content.startswith(_ZEROS, start):
        start += len(_ZEROS)
    return start


def _end_of_whole(content: bytes) -> int:
    end = content.rfind(b"\n") + 1
    start = content.rfind(b"\n", 0, max(end - 1, 0)) + 1
    # If the last checksum is right, so is all that it stands for.
    if end and _is_right(content[start:end], binascii.crc32(memoryview(content)[:start])):
        return end
    place = checksum = 0
    for line in content[:end].splitlines(keepends=True):
        if not _is_right(line, checksum):
            break
        place += len(line)
        checksum = binascii.crc32(line, checksum)
    return place


def _is_right(line: bytes, before: int) -> bool:
    return line[:8] == b"%08x" % binascii.crc32(line[9:-1], before)


def _attempts_of(content: bytes) -> tuple[set[str], set[str]]:
    """As `attempts_in`; nothing else of many records is looked at."""
    claimed, settled = set(), set()
    for line in content.split(b"\n"):
        kind = line[9:15]
        if kind == b"claim ":
            claimed.add(line[15 : line.index(b" ", 15)].decode("ascii"))
        elif kind.startswith((b"exit ", b"lost ")):
            settled.add(line[14 : line.index(b" ", 14)].decode("ascii"))
    return claimed, settled


def _token_in(torn: bytes) -> str:
    """The token of a first line that is damaged elsewhere; our programs carry it still."""
    found = torn.partition(b'"token":"')[2][:32]
    is_token = len(found) == 32 and not found.strip(b"0123456789abcdef")
    return found.decode("ascii") if is_token else ""


class KeeperJournal:
    """The writing side of the journal: one writer, the holder of the keeper's lock."""

    def __init__(self, path: str, token: str = "", place: str = "") -> None:
        """`token` and `place` are for a new one; an old one has its own."""
        self.folder = os.path.dirname(os.path.abspath(path))
        content, torn = _read_both(path)
        self.was_torn = bool(torn)
        self.is_new = not content and not torn
        # Where the records end, the bytes that were ever written, the space that is ours.
        self._end = self._laid = self._reserved = len(content)
        self._checksum = binascii.crc32(content)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._failed = False
        self.is_synced = True
        # An earlier keeper may have been killed before it came to that, too.
        self._has_durable_name = False
        self._noted: list[bytes] = []
        self.claimed, settled = _attempts_of(content)
        self.unsettled = self.claimed - settled
        if content:
            self.token, self.place = _identity_of(content)
        else:
            self.token = token or _token_in(torn) or os.urandom(16).hex()
            self.place = place
            self.reserve(1)
            self.note("open", "-", json_of({"token": self.token, "place": place}))
            self._write()
        if torn:
            # Before the rest is cut off, so that a kill in between forgets nothing.
            self.append("torn", "-", {"bytes": len(torn)})
        if content or torn:
            os.ftruncate(self._fd, self._end)
            self._laid = self._reserved = self._end

    def renew(self, token: str, place: str, kind: Literal["copy", "boot"]) -> None:
        """From here on it belongs to another run, a copy's, or to the run in another boot."""
        self.reserve(1)
        self.append(kind, "-", {"token": token, "place": place})
        self.token, self.place = token, place

    def reserve(self, records: int) -> None:
        """Make sure that so many records of any size will fit, or raise while nothing is lost."""
        needed = self._end + sum(map(len, self._noted)) + records * LONGEST_RECORD
        if needed > self._reserved:
            ahead = needed + _RESERVE_STEP - self._reserved
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._fd, self._reserved, ahead)
            self._reserved += ahead

    def note(self, kind: str, attempt: str, body: bytes) -> None:
        """Remember a fact for the next `commit`; a claim holds from here on."""
        line = line_of(kind, attempt, body, self._checksum)
        self._checksum = binascii.crc32(line, self._checksum)
        self._noted.append(line)
        if kind == "claim":
            self.claimed.add(attempt)

    def commit(self) -> None:
        """Make all that was noted durable. After a failure nothing more is: disks lie then.

        What was written before can be synced though there is no room for more; never twice.
        """
        had_failed = self._failed
        try:
            self.write()
        except OSError:
            if not self.is_synced and not had_failed:
                sync(self._fd)
                self.is_synced = True
            raise
        try:
            sync(self._fd)
            if not self._has_durable_name:
                for folder in (self.folder, os.path.dirname(self.folder)):
                    sync_folder(folder)
        except OSError:
            self._failed = True
            raise
        self._has_durable_name = True
        self.is_synced = True

    def write(self) -> None:
        """Write what was noted: a kill cannot take it, until the next `commit` a power cut may."""
        if self._failed:
            raise OSError(errno.EIO, "the journal could not be written earlier")
        try:
            self._write()
        except OSError:
            self._failed = True
            raise
        self.is_synced = False

    def _write(self) -> None:
        """The first record in a block that was only reserved writes zeros ahead of it, as many
        bytes as there are already.

        The sync that follows makes such blocks part of the file, and waits for whatever other
        programs have changed in the file system: rarely, this way.
        """
        data = b"".join(self._noted)
        self._noted = []
        end = self._end + len(data)
        zeros = b""
        if end > self._laid:
            self._laid = max(end, min(end + min(end, _MOST_AHEAD), self._reserved))
            zeros = bytes(self._laid - end)
        written = 0
        while written < len(data):
            written += os.pwrite(self._fd, data[written:] + zeros, self._end + written)
        self._end = end

    def close(self) -> None:
        """Give back the space that was reserved for records that will not come."""
        if not self.is_synced:
            self.commit()
        try:
            os.ftruncate(self._fd, self._end)
        except OSError:
            return  # readers pass over it

    def append(self, kind: str, attempt: str, data: Mapping[str, Scalar]) -> None:
        """Record one fact durably."""
        self.note(kind, attempt, json_of(data))
        self.commit()
