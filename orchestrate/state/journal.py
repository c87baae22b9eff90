"""The journal of a run: `events.jsonl`, one checksummed line per event, only ever appended.

A line is `{"seq":7,"batch":5,"sum":"0a1b2c3d","event":{...}}`. `seq` counts from 1; `batch` is the
`seq` of the first event that was not yet synced when it was written; `sum` is a CRC of all that
and of the run's id (the folder's name), so that no line of another run can pass for one of ours.

Why `batch`: a kill or a power cut can damage only what had not been synced, and that is the last
batch's lines: cut short, or (blocks reach the disk in any order) with a hole in front of good ones.
Such a tail is dropped, for nothing acted on it. Damage anywhere else is damage to events that
the run has acted on, and is refused. Events that nothing acts on (a step is about to start) need no
sync of their own: they stay in the batch that the next sync ends.
"""

from __future__ import annotations

import os
import stat
from binascii import crc32
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from orchestrate.errors import StateError, explain, repair_hint
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.durable import compact_json, parse_json, sync_data, sync_folder, write_out

_LINE = regex(
    rb'\{"seq":([1-9]\d{0,17}),"batch":([1-9]\d{0,17}),"sum":"([0-9a-f]{8})","event":(\{.*\})\}\Z'
)
_BLOCK = 64 * 1024
# Lines of a torn end that are passed over in search of the last event.
_MOST_TORN = 100
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class JournalCorruptError(StateError):
    """The journal is damaged in a place that no crash of ours can explain."""


@record
class JournalEntry:
    """One event as it was recorded."""

    seq: int
    event: dict[str, Any]


@record
class _Line:
    """A line whose checksum holds, and where it lies in the file."""

    seq: int
    batch: int
    body: bytes
    start: int
    end: int


class Journal:
    """The journal, open for its one writer (who holds the run's lock)."""

    __slots__ = (
        "_broken", "_descriptor", "_end", "_last_seq", "_path", "_seed", "_synced_seq", "dropped",
    )  # fmt: skip

    def __init__(self, path: Path, descriptor: int, end: int, last_seq: int, dropped: int) -> None:
        self._path = path
        self._seed = seed_of(path)
        self._descriptor = descriptor
        self._end = end
        self._last_seq = last_seq
        self._synced_seq = last_seq
        self._broken = False
        # How many bytes of a torn tail were cut off when it was opened.
        self.dropped = dropped

    @staticmethod
    def open(path: Path) -> Journal:
        """Open or create the journal; a torn tail is cut off, and all that is left is synced.

        The sync matters: the last events of a killed writer may be readable but not yet on the
        disk, and the opener of the journal is about to act on them.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600)
        except OSError as error:
            raise explain("open", path, error) from error
        try:
            size = _size_of(descriptor, path)
            end, last_seq = _find_end(descriptor, size, path)
            if end < size:
                os.ftruncate(descriptor, end)
            sync_data(descriptor)
            sync_folder(path.parent)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise explain("open", path, error) from error
            raise
        return Journal(path, descriptor, end, last_seq, size - end)

    @property
    def last_seq(self) -> int:
        """The `seq` of the newest event, 0 if there is none."""
        return self._last_seq

    @property
    def synced_seq(self) -> int:
        """The `seq` of the newest event that is surely on the disk."""
        return self._synced_seq

    def append(self, events: Sequence[Mapping[str, Any]], *, sync: bool = True) -> int:
        """Record events, all in one write and one sync; the new `last_seq`.

        On an error none of them is recorded and the journal is as it was. After a failed sync it
        takes nothing more, because what the disk holds is unknown: open it again. Without
        `sync`, readers see the events at once, but a power cut may take them.
        """
        if self._descriptor < 0 or self._broken:
            raise StateError(
                f"cannot append to {self._path}: it was closed, or an earlier write failed",
                "resume the run once the disk is in order",
            )
        if not events:
            return self._last_seq
        self._check_end()
        batch = self._synced_seq + 1
        first = self._last_seq + 1
        data = b"".join(
            [_line_of(first + i, batch, event, self._seed) for i, event in enumerate(events)]
        )
        is_written = False
        try:
            write_out(self._descriptor, data)
            if sync:
                is_written = True
                sync_data(self._descriptor)
        except BaseException as error:
            self._broken = is_written and isinstance(error, OSError)
            self._cut_back()
            if isinstance(error, OSError):
                raise explain("append to", self._path, error) from error
            raise
        self._end += len(data)
        self._last_seq += len(events)
        if sync:
            self._synced_seq = self._last_seq
        return self._last_seq

    def sync(self) -> None:
        """Bring what was appended without a sync to the disk."""
        if self._synced_seq == self._last_seq:
            return
        try:
            sync_data(self._descriptor)
        except OSError as error:
            self._broken = True
            raise explain("sync", self._path, error) from error
        self._synced_seq = self._last_seq

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_end(self) -> None:
        """A second writer, or an append that was interrupted in its last instruction."""
        if os.fstat(self._descriptor).st_size != self._end:
            self._broken = True
            raise StateError(
                f"cannot append to {self._path}: it does not end where we left it",
                "resume the run: that reads the journal again",
            )

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError:
            # What stands there now is a torn tail for the next who opens it.
            self._broken = True


def read_tail(
    path: Path, after_seq: int = 0, having: Sequence[bytes] = ()
) -> Iterator[JournalEntry]:
    """The events after `after_seq`, oldest first; costs what they cost, not what came before.

    A torn tail ends the iteration. Safe beside a writer: what it is just writing is not seen. With
    `having`, events that have none of these bytes in them are checked, but not parsed.
    """
    with _reading(path) as descriptor:
        if descriptor is None:
            if after_seq:
                raise damaged(path, f"it is missing, but {after_seq} events were recorded")
            return
        size = _size_of(descriptor, path)
        start, before = _find_start(descriptor, size, after_seq, path)
        last = before
        for line in _scan(descriptor, start, size, before, path):
            last = line.seq
            is_meant = not having or any(part in line.body for part in having)
            if line.seq > after_seq and is_meant:
                yield JournalEntry(line.seq, parse_json(line.body))
        if last < after_seq:
            problem = f"it ends at event {last}, but {after_seq} events were recorded"
            raise damaged(path, problem)


def end_of(path: Path) -> int:
    """The `seq` of the last event that can be read; 0 if there is none. Costs the last batch."""
    with _reading(path) as descriptor:
        if descriptor is None:
            return 0
        return _find_end(descriptor, _size_of(descriptor, path), path)[1]


def refuse_foreign(path: Path, run_id: str) -> None:
    """Refuse the whole journal of another run: to us it would look like one torn tail."""
    with _reading(path) as descriptor:
        if descriptor is None:
            return
        _, text = next(_read_lines(descriptor, 0, _size_of(descriptor, path)), (0, b""))
    found = _LINE.match(text.rstrip(b"\n"))
    try:
        owner = parse_json(found[4]).get("run_id", run_id) if found else run_id
    except ValueError:
        return
    if owner != run_id:
        raise JournalCorruptError(
            f"the journal {path} belongs to run {owner}",
            "put this run's own journal back, or go on from its state: "
            f"orchestrate resume {run_id} --repair",
        )


def last_event(path: Path) -> dict[str, Any] | None:
    """The last event, if it can be read; costs a line, and a few more where the end is torn."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    seed = seed_of(path)
    try:
        lines = _read_lines_backward(descriptor, _size_of(descriptor, path))
        for offset, text in islice(lines, _MOST_TORN):
            line = _parse(text, offset, seed)
            if line is not None:
                event: dict[str, Any] = parse_json(line.body)
                return event
    except (OSError, StateError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return None


def salvage(path: Path) -> tuple[list[bytes], int]:
    """The lines before the first damage, whatever stands behind it, and the last `seq` of them."""
    lines: list[bytes] = []
    with _reading(path) as descriptor:
        if descriptor is None:
            return lines, 0
        for offset, text in _read_lines(descriptor, 0, _size_of(descriptor, path)):
            line = _parse(text, offset, seed_of(path))
            if line is None or line.seq != len(lines) + 1:
                break
            lines.append(text)
    return lines, len(lines)


@contextmanager
def _reading(path: Path) -> Iterator[int | None]:
    """The journal, open; None if there is none."""
    descriptor = None
    try:
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | _FLAGS)
        yield descriptor
    except OSError as error:
        raise explain("read", path, error) from error
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _size_of(descriptor: int, path: Path) -> int:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"{path} is not a regular file", "remove it")
    return found.st_size


def read_bytes(path: Path) -> bytes:
    """All of it, as it stands there."""
    with _reading(path) as descriptor:
        return b"" if descriptor is None else os.pread(descriptor, _size_of(descriptor, path), 0)


def line_in(text: bytes, seq: int, seed: int) -> Any:
    """The event in a line that must be number `seq`; None if that is not whole."""
    found = _parse(text, 0, seed)
    return parse_json(found.body) if found is not None and found.seq == seq else None


def seed_of(path: Path) -> int:
    return crc32(os.fsencode(path.parent.name))


def _line_of(seq: int, batch: int, event: Mapping[str, Any], seed: int) -> bytes:
    body = compact_json(event)
    return b'{"seq":%d,"batch":%d,"sum":"%08x","event":%b}\n' % (
        seq,
        batch,
        _sum_of(seq, batch, body, seed),
        body,
    )


def _sum_of(seq: int, batch: int, body: bytes, seed: int) -> int:
    return crc32(body, crc32(b"%d %d " % (seq, batch), seed))


def _parse(text: bytes, start: int, seed: int) -> _Line | None:
    """The line, if it ends in a newline and its checksum holds."""
    if not text.endswith(b"\n"):
        return None
    found = _LINE.match(text[:-1])
    if not found:
        return None
    seq, batch, body = int(found[1]), int(found[2]), found[4]
    if int(found[3], 16) != _sum_of(seq, batch, body, seed):
        return None
    return _Line(seq, batch, body, start, start + len(text))


def _scan(descriptor: int, start: int, size: int, before: int, path: Path) -> Iterator[_Line]:
    """The lines from `start` on, which must follow event `before`, up to a torn tail."""
    expected = before + 1
    seed = seed_of(path)
    lines = _read_lines(descriptor, start, size)
    for offset, text in lines:
        line = _parse(text, offset, seed)
        if line is None:
            _check_tail(lines, expected, offset, path)
            return
        if line.seq != expected:
            raise damaged(path, f"event {expected} is missing at byte {offset}")
        yield line
        expected += 1


def _check_tail(rest: Iterator[tuple[int, bytes]], expected: int, at: int, path: Path) -> None:
    """Behind damage, only lines of the same write may stand: else it was synced once."""
    for offset, text in rest:
        line = _parse(text, offset, seed_of(path))
        if line is not None and line.batch > expected:
            problem = f"event {expected} at byte {at} is damaged, but later ones are not"
            raise damaged(path, problem)


def _read_lines(descriptor: int, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines between two offsets with their places; the last one may lack its newline."""
    held: list[bytes] = []
    line_start = offset = start
    while offset < size:
        block = os.pread(descriptor, min(_BLOCK, size - offset), offset)
        if not block:
            break
        offset += len(block)
        *complete, rest = block.split(b"\n")
        for part in complete:
            text = b"".join([*held, part, b"\n"])
            held.clear()
            yield line_start, text
            line_start += len(text)
        if rest:
            held.append(rest)
    if held:
        yield line_start, b"".join(held)


def _read_lines_backward(descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines with their places, last one first."""
    held: list[bytes] = []  # parts of a line whose start is not yet found, last part first
    offset = size
    while offset > 0:
        start = max(0, offset - _BLOCK)
        block = os.pread(descriptor, offset - start, start)
        if len(block) < offset - start:
            return  # cut by its writer while we read
        offset = start
        first, *others = block.split(b"\n")
        end = start + len(block)
        for part in reversed(others):
            # The newline in front of `part` starts a line.
            line_start = end - len(part)
            text = b"".join([part, *reversed(held)])
            if text:
                yield line_start, text
            held = [b"\n"]
            end = line_start - 1
        held.append(first)
    text = b"".join(reversed(held))
    if text:
        yield 0, text


def _find_start(descriptor: int, size: int, after_seq: int, path: Path) -> tuple[int, int]:
    """Where to read on after an event: an offset, and the `seq` of the line before it."""
    if after_seq > 0:
        seed = seed_of(path)
        for offset, text in _read_lines_backward(descriptor, size):
            line = _parse(text, offset, seed)
            if line is not None and line.seq <= after_seq:
                return line.end, line.seq
    return 0, 0


def _find_end(descriptor: int, size: int, path: Path) -> tuple[int, int]:
    """Where the good part of the journal ends, and the last `seq` in it; costs the last batch."""
    start, before, batch = 0, 0, 0
    seed = seed_of(path)
    for offset, text in _read_lines_backward(descriptor, size):
        line = _parse(text, offset, seed)
        if line is None:
            continue
        batch = batch or line.batch
        if line.seq < batch:
            start, before = line.end, line.seq
            break
    for line in _scan(descriptor, start, size, before, path):
        start, before = line.end, line.seq
    return start, before


def damaged(path: Path, problem: str) -> JournalCorruptError:
    return JournalCorruptError(
        f"the journal {path} is damaged: {problem}",
        repair_hint(path.parent.name),
    )
