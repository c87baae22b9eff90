"""The journal forgets nothing that was durable and believes nothing that is torn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrate.process.journal import LONGEST_RECORD, Journal, read_lines
from orchestrate.process.protocol import Frames, bytes_of, encode, is_locked, take_lock, text_of


def whole(path: Path) -> list[tuple[bytes, bytes]]:
    return [(kind, attempt) for kind, attempt, _ in read_lines(str(path))[0]]


def test_torn_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    ends = [read_lines(str(path))[1]]
    for kind, attempt in (("claim", "a"), ("exit", "a"), ("claim", "b")):
        journal.append(kind, attempt, {"text": "ä\udcff\n"})
        ends.append(read_lines(str(path))[1])
    content = path.read_bytes()
    records = whole(path)
    assert records[1:] == [(b"claim", b"a"), (b"exit", b"a"), (b"claim", b"b")]
    for cut in range(ends[-1] + 1):
        for padding in (b"", b"\0" * 10):
            path.write_bytes(content[:cut] + padding)
            assert whole(path) == records[: sum(end <= cut for end in ends)], cut


def test_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = Journal(str(path))
    first.append("claim", "a", {})
    with path.open("r+b") as file:
        file.seek(read_lines(str(path))[1])
        file.write(b"0000beef claim b {")
    again = Journal(str(path))
    assert (again.claimed, again.unsettled, again.token) == ({"a"}, {"a"}, first.token)
    again.append("exit", "a", {})
    assert whole(path)[-2:] == [(b"claim", b"a"), (b"exit", b"a")]


def test_space_is_reserved_before_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(str(path))
    journal.reserve(3)
    blocks = os.stat(path).st_blocks * 512
    assert blocks >= 3 * LONGEST_RECORD
    inode_size = os.stat(path).st_size
    journal.append("exit", "a", {"stdout": "\udcff" * 8192, "stderr": "\udcff" * 8192})
    assert os.stat(path).st_size == inode_size


def test_nothing_is_recorded_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(str(tmp_path / "journal"))

    def fail(fd: int) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr("orchestrate.process.journal.sync", fail)
    with pytest.raises(OSError, match="I/O error"):
        journal.append("claim", "a", {})
    monkeypatch.undo()
    with pytest.raises(OSError, match="earlier"):
        journal.append("claim", "b", {})


def test_frames_in_any_pieces() -> None:
    sent = [(["a"], b"\n\0\xff"), ([""], b""), (["b", "c", "1"], b"x" * 300)]
    stream = b"".join(encode(" ".join(words), body) for words, body in sent)
    for size in (1, 3, 4, 5, 1000):
        frames = Frames()
        got = [m for i in range(0, len(stream), size) for m in frames.feed(stream[i : i + size])]
        assert got == sent


def test_any_bytes_are_text() -> None:
    assert bytes_of(text_of(bytes(range(256)))) == bytes(range(256))


def test_locks(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert not is_locked(path)
    held = take_lock(path)
    assert held is not None
    assert is_locked(path)
    assert take_lock(path) is None
    os.close(held)
    assert not is_locked(path)
    shared = take_lock(path, shared=True)
    assert shared is not None
    assert not is_locked(path)
    assert is_locked(path, also_shared=True)
    os.close(shared)
