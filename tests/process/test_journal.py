"""The keeper's journal on its way to the disk: what is synced when, and what a fault leaves."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from orchestrate.execute.keeper import journal as module
from orchestrate.execute.keeper.journal import (
    LONGEST_RECORD,
    KeeperJournal,
    read_facts,
    was_torn,
)
from tests.process.conftest import read_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "keeper"
    folder.mkdir(parents=True)
    return folder / "journal"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(module, "sync", lambda _: names.append("file"))
    monkeypatch.setattr(module, "sync_folder", lambda folder: names.append(Path(folder).name))
    return names


def kinds(path: Path) -> list[str]:
    return [f"{kind.decode()} {attempt.decode()}" for kind, attempt, _ in read_lines(str(path))[0]]


def test_the_first_commit_makes_its_name_durable_too(path: Path, synced: list[str]) -> None:
    journal = KeeperJournal(str(path))
    assert synced == []
    journal.append("claim", "a", {})
    assert synced == ["file", "keeper", "run"]
    journal.append("exit", "a", {})
    assert synced == ["file", "keeper", "run", "file"]
    # The next keeper cannot know how far this one came.
    KeeperJournal(str(path)).append("claim", "b", {})
    assert synced == ["file", "keeper", "run", "file", "file", "keeper", "run"]


def test_a_relative_name_is_synced_where_it_is(
    path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    KeeperJournal("journal").append("claim", "a", {})
    assert synced == ["file", "keeper", "run"]


def test_short_writes_are_gone_on_with(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = KeeperJournal(str(path))
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:5], at))
    journal.append("claim", "a", {"text": "x" * 50})
    journal.append("exit", "a", {"text": "y" * 50})
    monkeypatch.undo()
    assert kinds(path) == ["open -", "claim a", "exit a"]
    assert read_facts(str(path), "a")["exit"] == b'{"text":"%b"}' % (b"y" * 50)


def test_a_failed_write_is_the_last(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = KeeperJournal(str(path))

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match="full"):
            journal.append("claim", "a", {})
    with pytest.raises(OSError, match="earlier") as caught:
        journal.commit()
    assert caught.value.errno == errno.EIO
    assert kinds(path) == ["open -"]


def test_space_is_asked_for_only_when_it_runs_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    fallocate = os.posix_fallocate

    def see(fd: int, start: int, size: int) -> None:
        asked.append((start, start + size))
        fallocate(fd, start, size)

    monkeypatch.setattr(os, "posix_fallocate", see)
    journal = KeeperJournal(str(path))
    assert len(asked) == 1
    journal.reserve(1)
    assert len(asked) == 1
    journal.reserve(100)
    assert len(asked) == 2
    assert asked[1][0] == asked[0][1]
    assert asked[1][1] >= read_lines(str(path))[1] + 100 * LONGEST_RECORD
    # What is noted and not yet written needs its room as well.
    for _ in range(4):
        journal.note("exit", "a", b"x" * 50 * LONGEST_RECORD)
    journal.reserve(1)
    assert len(asked) == 3
    journal.commit()
    assert path.stat().st_size == asked[2][1]


def test_space_that_is_refused_is_asked_for_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = KeeperJournal(str(path))

    def fail(*_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "posix_fallocate", fail)
            with pytest.raises(OSError, match="full"):
                journal.reserve(50)
    journal.reserve(50)
    journal.append("claim", "a", {})
    assert kinds(path) == ["open -", "claim a"]


def test_reserved_space_is_given_back_by_the_next_keeper(path: Path) -> None:
    KeeperJournal(str(path)).append("claim", "a", {})
    whole = read_lines(str(path))[1]
    assert path.stat().st_size > whole
    again = KeeperJournal(str(path))
    assert path.stat().st_size == whole
    assert not again.was_torn
    assert not was_torn(str(path))
    again.reserve(2)
    again.append("exit", "a", {})
    assert kinds(path) == ["open -", "claim a", "exit a"]
    assert (again.claimed, again.unsettled) == ({"a"}, {"a"})
    assert KeeperJournal(str(path)).unsettled == set()


def test_a_torn_rest_is_noted_before_it_is_cut_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeeperJournal(str(path)).append("claim", "a", {})
    whole = read_lines(str(path))[1]
    path.write_bytes(path.read_bytes()[:whole] + b"0000beef claim b {}\nmore\n\0\0\0")

    def power_fails(*_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", power_fails)
        with pytest.raises(KeyboardInterrupt):
            KeeperJournal(str(path))
    assert kinds(path)[:3] == ["open -", "claim a", "torn -"]
    again = KeeperJournal(str(path))
    assert again.claimed == {"a"}
    assert kinds(path)[:3] == ["open -", "claim a", "torn -"]
    assert was_torn(str(path))


@pytest.mark.parametrize(
    ("damage", "is_kept"),
    [((b"open -", b"opem -"), True), ((b'"token":"', b'"token":"~'), False)],
    ids=["elsewhere", "in the token"],
)
def test_the_token_outlives_a_damaged_first_line(
    path: Path, damage: tuple[bytes, bytes], is_kept: bool
) -> None:
    """Programs that still run carry it."""
    token = KeeperJournal(str(path)).token
    assert re.fullmatch("[0-9a-f]{32}", token)
    path.write_bytes(path.read_bytes().replace(*damage))
    again = KeeperJournal(str(path))
    assert (again.token == token) is is_kept
    assert re.fullmatch("[0-9a-f]{32}", again.token)
    assert again.was_torn
    assert kinds(path) == ["open -", "torn -"]
    assert KeeperJournal(str(path)).token == again.token


def test_a_file_that_is_only_zeros_is_a_new_one(path: Path) -> None:
    path.write_bytes(b"\0" * 5000)
    journal = KeeperJournal(str(path))
    assert not journal.was_torn
    journal.append("claim", "a", {})
    assert kinds(path) == ["open -", "claim a"]


def test_it_is_private_and_no_link(path: Path) -> None:
    KeeperJournal(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic") as caught:
        KeeperJournal(str(path))
    assert caught.value.errno == errno.ELOOP


def test_attempts_are_told_apart_by_their_whole_names(path: Path) -> None:
    journal = KeeperJournal(str(path))
    for attempt in ("a@1", "a@11", "b"):
        journal.append("claim", attempt, {"at": 1})
    journal.append("lost", "a@11", {"reason": "it was lost"})
    assert set(read_facts(str(path), "a@1")) == {"claim"}
    assert read_facts(str(path), "a@11") == {
        "claim": b'{"at":1}',
        "lost": b'{"reason":"it was lost"}',
    }
    assert kinds(path)[-1] == "lost a@11"
    assert set(read_facts(str(path), "a")) == set()
    journal.append("exit", "b", {"code": 0})
    again = KeeperJournal(str(path))
    assert again.claimed == {"a@1", "a@11", "b"}
    assert again.unsettled == {"a@1"}


def test_cheap_03_a_journal_that_is_closed_gives_its_space_back(path: Path) -> None:
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    assert path.stat().st_blocks * 512 > LONGEST_RECORD
    journal.close()
    assert path.read_bytes().endswith(b"claim a {}\n")
    assert path.stat().st_blocks * 512 <= 4096


def test_cheap_03_blocks_that_are_only_reserved_are_rarely_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that makes them part of the file waits for what others have changed in its system."""
    ends: list[int] = []
    pwrite = os.pwrite

    def see(fd: int, data: bytes, start: int) -> int:
        ends.append(start + len(data))
        return pwrite(fd, data, start)

    monkeypatch.setattr(os, "pwrite", see)
    journal = KeeperJournal(str(path))
    for number in range(500):
        journal.reserve(1)
        journal.append("exit", f"a{number}", {"stdout": "x" * 900})
    firsts = [end for number, end in enumerate(ends) if end > max(ends[:number], default=0)]
    assert len(ends) == 501
    assert len(firsts) < 20
    # Never beyond what the disk has promised, where a record alone would have found its room.
    journal.append("exit", "long", {"stdout": "x" * (path.stat().st_size - ends[-1] - 200)})
    assert ends[-1] <= path.stat().st_size
    assert len(kinds(path)) == 502
    assert not KeeperJournal(str(path)).was_torn


def test_cheap_01_what_was_written_is_synced_with_the_next_commit(
    path: Path, synced: list[str]
) -> None:
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    synced.clear()
    journal.note("exit", "a", b"{}")
    journal.write()
    assert (synced, journal.is_synced) == ([], False)
    assert kinds(path)[-1] == "exit a", "a kill cannot take it"
    journal.append("claim", "b", {})
    assert (synced, journal.is_synced) == (["file"], True)


def test_cheap_01_what_was_written_is_synced_though_there_is_no_room_for_more(
    path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    journal.note("exit", "a", b"{}")
    journal.write()
    synced.clear()

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "pwrite", refuse)
    for _ in range(2):
        with pytest.raises(OSError, match=r"no room|earlier"):
            journal.append("claim", "b", {})
    assert (synced, journal.is_synced) == (["file"], True)


def test_cheap_01_after_a_sync_that_failed_there_is_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    journal.note("exit", "a", b"{}")
    journal.write()
    tries: list[int] = []

    def fail(fd: int) -> None:
        tries.append(fd)
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(module, "sync", fail)
    with pytest.raises(OSError, match="broken"):
        journal.commit()
    assert (len(tries), journal.is_synced) == (1, False)


def test_cheap_01_what_was_written_last_is_synced_at_the_end(path: Path, synced: list[str]) -> None:
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    synced.clear()
    journal.note("exit", "a", b"{}")
    journal.write()
    journal.close()
    assert synced == ["file"]
