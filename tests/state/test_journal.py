"""The journal: appended, checksummed, its torn tail dropped, other damage refused."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrate.errors import StateError
from orchestrate.state import journal as module
from orchestrate.state.durable import sync_data
from orchestrate.state.journal import Journal, JournalCorruptError, read_tail, refuse_foreign

BATCHES: list[list[dict[str, Any]]] = [
    [{"kind": "RunStarted"}],
    [{"kind": "StepStarted", "text": "a\nb"}, {"kind": "StepFinished", "out": "\ud800 é"}],
    [{"kind": "RunFinished"}],
]
EVENTS = [event for batch in BATCHES for event in batch]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    with Journal.open(path) as journal:
        for batch in BATCHES:
            journal.append(batch)
    return path


def events_of(path: Path, after_seq: int = 0) -> list[dict[str, Any]]:
    return [entry.event for entry in read_tail(path, after_seq)]


def test_what_is_appended_is_read(path: Path) -> None:
    assert events_of(path) == EVENTS
    assert [entry.seq for entry in read_tail(path)] == [1, 2, 3, 4]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for number, line in enumerate(path.read_text("ascii").splitlines(), 1):
        parsed = json.loads(line)
        assert parsed["seq"] == number
        assert parsed["event"] == EVENTS[number - 1]


def test_a_missing_or_empty_journal_has_no_events(tmp_path: Path) -> None:
    assert events_of(tmp_path / "none") == []
    with Journal.open(tmp_path / "new") as journal:
        assert journal.last_seq == 0
        assert journal.append([]) == 0
    assert events_of(tmp_path / "new") == []


@pytest.mark.parametrize("after", range(5))
def test_the_tail_starts_after_an_event(path: Path, after: int) -> None:
    assert events_of(path, after) == EVENTS[after:]


def test_what_is_not_meant_is_not_parsed_but_counted(path: Path) -> None:
    found = list(read_tail(path, 0, having=(b'"kind":"StepFinished"', b"nowhere")))
    assert [(entry.seq, entry.event) for entry in found] == [(3, EVENTS[2])]
    assert list(read_tail(path, 3, having=(b"StepFinished",))) == []
    with pytest.raises(StateError, match="ends at event 4"):
        list(read_tail(path, 5, having=(b"nowhere",)))


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_journal_that_lacks_recorded_events_is_refused(path: Path, is_missing: bool) -> None:
    if is_missing:
        path.unlink()
    with pytest.raises(JournalCorruptError, match="5 events were recorded"):
        events_of(path, 5)


@pytest.mark.parametrize("block", [1, 3, 64, 65536])
def test_torn_at_every_length(path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    whole = path.read_bytes()
    step = 1 if block > 3 else 7
    for length in range(0, len(whole) + 1, step):
        path.write_bytes(whole[:length])
        complete = whole[:length].count(b"\n")
        assert events_of(path) == EVENTS[:complete]
        for after in range(complete + 1):
            assert events_of(path, after) == EVENTS[after:complete]
        with Journal.open(path) as journal:
            assert journal.last_seq == complete
            assert journal.dropped == length - (whole[:length].rfind(b"\n") + 1)
            assert journal.append([{"next": True}]) == complete + 1
        assert events_of(path) == [*EVENTS[:complete], {"next": True}]


@pytest.mark.parametrize(
    "garbage", [b"\0" * 5000, b"\xff\xfe\n\n{}\n", b'{"seq":5}\n', b"\n", b"x" * 200_000]
)
def test_garbage_at_the_end_is_dropped(path: Path, garbage: bytes) -> None:
    with path.open("ab") as file:
        file.write(garbage)
    assert events_of(path) == EVENTS
    with Journal.open(path) as journal:
        assert journal.dropped == len(garbage)
        assert journal.append([{"next": True}]) == 5
    assert events_of(path, 3) == [EVENTS[3], {"next": True}]


def test_every_flipped_byte_is_found(path: Path) -> None:
    whole = path.read_bytes()
    last_batch = whole.rstrip(b"\n").rindex(b"\n")
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x15
        path.write_bytes(damaged)
        if place < last_batch:
            with pytest.raises(JournalCorruptError, match="damaged") as caught:
                events_of(path)
            assert "--repair" in caught.value.hint
        else:
            # The newline before the last line belongs to both.
            assert events_of(path) == EVENTS[: 2 if place == last_batch else 3]


def test_a_hole_in_the_last_write_is_a_torn_tail(path: Path) -> None:
    """After a power cut, the later blocks of a write may be there and the earlier ones not."""
    start = path.stat().st_size
    with Journal.open(path) as journal:
        journal.append([{"n": number, "filler": "f" * 3000} for number in range(9)])
    damaged = bytearray(path.read_bytes())
    damaged[start + 7000 : start + 12_000] = b"\0" * 5000
    path.write_bytes(damaged)
    assert [event.get("n") for event in events_of(path, 4)] == [0, 1]
    with Journal.open(path) as journal:
        assert journal.last_seq == 6
        assert journal.dropped > 15_000
        assert journal.append([{"n": "next"}]) == 7
    assert [event.get("n") for event in events_of(path, 4)] == [0, 1, "next"]


def test_damage_near_the_end_is_refused_when_opening(path: Path) -> None:
    with Journal.open(path) as journal:
        journal.append([{"n": 5}])
    damaged = path.read_bytes().replace(b"RunFinished", b"RunVanished")
    path.write_bytes(damaged)
    with pytest.raises(JournalCorruptError, match="event 4 at byte"):
        Journal.open(path)
    assert path.read_bytes() == damaged


def test_a_lost_line_is_refused(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(JournalCorruptError, match="event 2 is missing"):
        events_of(path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_leaves_the_journal_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole = path.read_bytes()
    write = os.write

    def write_a_part(descriptor: int, data: bytes) -> int:
        write(descriptor, bytes(data)[:20])
        raise OSError(number, os.strerror(number))

    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_a_part)
            with pytest.raises(StateError, match=errno.errorcode[number]):
                journal.append([{"lost": True}])
        assert path.read_bytes() == whole
        assert journal.append([{"kept": True}]) == 5
    assert events_of(path, 4) == [{"kept": True}]


def test_after_a_failed_sync_nothing_more_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = path.read_bytes()
    calls = []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Journal.open(path) as journal:
        monkeypatch.setattr(module, "sync_data", fail)
        with pytest.raises(StateError, match="EIO"):
            journal.append([{"lost": True}])
        with pytest.raises(StateError, match="earlier write failed"):
            journal.append([{"refused": True}])
    assert len(calls) == 1
    assert path.read_bytes() == whole


def test_an_interrupt_unwrites_the_event(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with Journal.open(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(module, "sync_data", interrupt)
            with pytest.raises(KeyboardInterrupt):
                journal.append([{"lost": True}])
        assert journal.append([{"kept": True}]) == 5
    assert events_of(path, 4) == [{"kept": True}]


def test_a_second_writer_is_noticed(path: Path) -> None:
    with Journal.open(path) as first, Journal.open(path) as second:
        first.append([{"n": 5}])
        with pytest.raises(StateError, match="does not end where"):
            second.append([{"n": 5}])
    assert events_of(path, 4) == [{"n": 5}]


def test_one_batch_is_one_write_and_one_sync(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    write = os.write

    def see_write(descriptor: int, data: bytes) -> int:
        calls.append("write")
        return write(descriptor, data)

    def see_sync(descriptor: int) -> None:
        calls.append("sync")
        sync_data(descriptor)

    with Journal.open(path) as journal:
        monkeypatch.setattr(os, "write", see_write)
        monkeypatch.setattr(module, "sync_data", see_sync)
        journal.append([{"n": number} for number in range(100)])
    assert calls == ["write", "sync"]


def test_cost_does_not_grow_with_the_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    read: list[int] = []
    pread = os.pread

    def count(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", count)
    costs = []
    with Journal.open(path) as journal:
        for _ in range(3):
            for _ in range(10):
                journal.append([{"filler": "f" * 500}] * 200)
            journal.append([{"last": True}])
            read.clear()
            assert events_of(path, journal.last_seq - 1) == [{"last": True}]
            Journal.open(path).close()
            costs.append(sum(read))
    assert path.stat().st_size > 3_000_000
    assert max(costs) < 5 * module._BLOCK
    assert max(costs) - min(costs) < module._BLOCK


def test_a_line_of_another_run_is_none_of_ours(path: Path, tmp_path: Path) -> None:
    """Its number fits and its checksum holds, but in another folder."""
    other = tmp_path / "20200101T000000Z-aaaaaa" / path.name
    other.parent.mkdir()
    with Journal.open(other) as journal:
        for batch in BATCHES:
            journal.append(batch)
    lines = path.read_bytes().splitlines(keepends=True)
    foreign = other.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], foreign[3]]))
    assert events_of(path) == EVENTS[:3]
    path.write_bytes(b"".join([lines[0], foreign[1], *lines[2:]]))
    with pytest.raises(JournalCorruptError, match="event 2 at byte"):
        events_of(path)


def test_the_whole_journal_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "20200101T000000Z-aaaaaa" / "events.jsonl"
    refuse_foreign(path, "20200101T000000Z-aaaaaa")
    path.parent.mkdir()
    with Journal.open(path) as journal:
        journal.append([{"on": "run-started", "run_id": "20200101T000000Z-aaaaaa"}])
    refuse_foreign(path, "20200101T000000Z-aaaaaa")
    with pytest.raises(JournalCorruptError, match="belongs to run 20200101T000000Z-aaaaaa"):
        refuse_foreign(path, "20200101T000000Z-bbbbbb")
    path.write_bytes(b"\0" * 100)
    refuse_foreign(path, "20200101T000000Z-bbbbbb")


def test_only_a_regular_file_is_a_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StateError, match="not a regular file"):
        Journal.open(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="ELOOP"):
        Journal.open(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_closed_journal_takes_nothing(path: Path) -> None:
    journal = Journal.open(path)
    journal.close()
    journal.close()
    with pytest.raises(StateError, match="closed"):
        journal.append([{"n": 5}])
