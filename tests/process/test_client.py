"""The engine's side of the line, against a keeper that says what the test wants."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost, NotStarted, Running
from orchestrate.execute.keeper import boot
from orchestrate.execute.keeper.client import Keeper
from orchestrate.execute.keeper.journal import KeeperJournal
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, VERSION, encode
from tests.process.conftest import MakeRequest


def connected(run_dir: Path, *messages: bytes) -> tuple[Keeper, socket.socket]:
    """A client to whom all of this is said, and the other end of its line."""
    ours, theirs = socket.socketpair()
    theirs.sendall(b"".join(messages))
    return Keeper(run_dir, ours), theirs


def test_a_keeper_of_another_version_is_refused(run_dir: Path) -> None:
    keeper, theirs = connected(run_dir, encode(f"hello {VERSION + 1} 7"))
    with theirs, pytest.raises(ConfigError, match="another version") as caught:
        keeper.is_introduced()
    assert "resume with the version" in caught.value.hint
    assert keeper._sock.fileno() == -1


def test_a_keeper_that_ends_before_it_speaks_is_no_keeper(run_dir: Path) -> None:
    keeper, theirs = connected(run_dir)
    theirs.close()
    with keeper:
        assert not keeper.is_introduced()
        assert keeper.is_gone


def test_a_keeper_introduces_itself(run_dir: Path) -> None:
    keeper, theirs = connected(run_dir, encode(f"hello {VERSION} 4711"))
    with keeper, theirs:
        assert keeper.is_introduced()
        assert (keeper.pid, keeper.is_gone) == (4711, False)


def test_answers(run_dir: Path, plain_request: MakeRequest) -> None:
    request = plain_request("a", "true")
    words = ("start a started", "start a known 1", "about - 1", "about - 0", "watch a 1")
    for said in words:
        keeper, theirs = connected(run_dir, encode(said))
        with keeper, theirs:
            match said.split()[0]:
                case "start":
                    assert keeper.start(request) == said.split()[2]
                    assert keeper.wait("a", 0.0) is None
                case "about":
                    assert keeper.ends_whole_trees is (said == "about - 1")
                case _:
                    assert keeper.adopt("a") == Running()
    keeper, theirs = connected(run_dir, encode("start a refused", b"no r\xf6om"))
    with keeper, theirs, pytest.raises(ConfigError, match="was not started: no r\ufffdom"):
        keeper.start(request)


def test_what_is_not_known_is_looked_up(run_dir: Path, plain_request: MakeRequest) -> None:
    (run_dir / FOLDER).mkdir()
    KeeperJournal(str(run_dir / FOLDER / JOURNAL)).append("claim", "a", {"at": 1})
    for attempt, expected in (("a", Lost), ("b", NotStarted)):
        keeper, theirs = connected(run_dir, encode(f"watch {attempt} 0"))
        with keeper, theirs:
            assert isinstance(keeper.adopt(attempt), expected)
    # It dies before it answers: the record says whether it had claimed the attempt.
    for attempt in ("a", "b"):
        keeper, theirs = connected(run_dir)
        theirs.close()
        with keeper:
            if attempt == "a":
                assert keeper.start(plain_request("a", "true")) == "known"
                assert isinstance(keeper.wait("a", 60), Lost)
            else:
                with pytest.raises(ConfigError, match="keeper is gone"):
                    keeper.start(plain_request("b", "true"))


def test_half_a_message_is_no_message(run_dir: Path) -> None:
    whole = encode(f"hello {VERSION} 4711")
    keeper, theirs = connected(run_dir, whole[:7])
    theirs.close()
    with keeper:
        assert not keeper.is_introduced()


def test_nonsense_is_an_end(run_dir: Path) -> None:
    keeper, theirs = connected(run_dir, b"\xff\xff\xff\xff")
    with keeper, theirs:
        assert not keeper.is_introduced()
        assert keeper.is_gone


def test_without_a_process_for_a_guardian_there_is_none(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many processes: the keeper goes on without, and uses wardens."""

    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    line = boot.leave_guardian_behind(str(run_dir))
    assert line.recv(1) == b""
    line.close()
