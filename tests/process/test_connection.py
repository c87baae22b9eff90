"""The keeper's connections: it waits for nobody, loses nothing, and gives up on who never reads."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrate.execute.keeper import connections as module
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.connections import Connection, WardenConnection
from orchestrate.execute.keeper.facts import Ended
from orchestrate.execute.keeper.protocol import FOLDER, SOCKET, VERSION, Frames, encode
from tests.process.conftest import MakeRequest, assert_idle

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    yield Connection(ours), theirs
    ours.close()
    theirs.close()


def received(theirs: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += theirs.recv(1 << 16)
    return data


def test_what_does_not_fit_is_kept_in_its_order(pair: Pair) -> None:
    line, theirs = pair
    message = bytes(range(256)) * 8192
    assert line.send(message)
    assert 0 < len(line.unsent) < len(message)
    kept = len(line.unsent)
    assert line.send(b"more")
    assert len(line.unsent) == kept + 4
    data = received(theirs, len(message) - kept)
    while line.unsent:
        assert line.send()
        data += received(theirs, 1)
    data += received(theirs, len(message) + 4 - len(data)) if len(data) < len(message) + 4 else b""
    assert data == message + b"more"
    assert line.send(b"last")
    assert (line.unsent, theirs.recv(10)) == (b"", b"last")


def test_who_never_reads_is_given_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    line, _ = pair
    monkeypatch.setattr(module, "_SEND_LIMIT", 1 << 22)
    assert line.send(b"x" * (1 << 22))
    assert not line.send(b"x" * (1 << 22))


def test_who_is_gone_is_noticed(pair: Pair) -> None:
    line, theirs = pair
    assert line.receive() == []
    theirs.send(encode("half a", b"message")[:9])
    assert line.receive() == []
    theirs.send(encode("half a", b"message")[9:])
    assert line.receive() == [(["half", "a"], b"message")]
    theirs.close()
    assert line.receive() is None
    assert not line.send(b"anybody?")


def test_nonsense_is_an_end(pair: Pair) -> None:
    line, theirs = pair
    theirs.send(b"\xff\xff\xff\xff")
    assert line.receive() is None


def test_a_wardens_orders() -> None:
    ours, theirs = socket.socketpair()
    line = WardenConnection(ours, 123)
    assert (line.pid, line.attempt, line.watchers) == (123, "", set())
    line.prepare("a@1", b"request")
    line.go()
    line.stop(b"why", 1.5)
    line.drop()
    assert line.attempt == "a@1"
    assert Frames().feed(theirs.recv(1000)) == [
        (["prepare", "a@1"], b"request"), (["go"], b""), (["stop", "a@1", "1.5"], b"why"),
        (["drop"], b""),
    ]  # fmt: skip
    theirs.close()
    line.go()  # it died: its line will say so
    assert line.receive() is None
    line.close()


def test_a_client_that_reads_late_gets_everything_and_keeps_nobody_waiting(
    run_dir: Path, request_for: MakeRequest
) -> None:
    questions = 5_000
    with ensure_keeper(run_dir) as keeper, socket.socket(socket.AF_UNIX) as late:
        late.connect(str(run_dir / FOLDER / SOCKET))
        asking = threading.Thread(target=late.sendall, args=(encode("about") * questions,))
        asking.start()
        assert isinstance(keeper.run(request_for("a", "true"), 20), Ended)
        asking.join(60)
        assert isinstance(keeper.run(request_for("b", "true"), 20), Ended)
        frames = Frames()
        answers: list[tuple[list[str], bytes]] = []
        while len(answers) < questions + 1:
            answers += frames.feed(late.recv(1 << 16))
        assert answers[0][0] == ["hello", str(VERSION), str(keeper.pid), "follow", "slots"]
        assert {tuple(words) for words, _ in answers[1:]} <= {
            ("about", "-", "1"),
            ("about", "-", "0"),
        }
        late.sendall(encode("about"))
        assert Frames().feed(late.recv(1 << 16)) == [(["about", "-", "1"], b"")]
        assert_idle(keeper.pid)
