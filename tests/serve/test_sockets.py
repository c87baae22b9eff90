"""Raw sockets: malformed upgrades and frames, clients that neither send nor take (serve.md §2)."""

from __future__ import annotations

import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from orchestrate.serve import server
from orchestrate.serve.console import Console
from orchestrate.serve.patience import PatientProtocol, PatientSocket
from orchestrate.serve.server import MOST_FRAME
from orchestrate.testing import Project
from tests.promises.processes import wait_until
from tests.serve.conftest import MakeConsole, serving
from tests.serve.raw import (
    BINARY,
    CLOSE,
    COMPRESSED,
    PATIENCE_S,
    PING,
    TEXT,
    UPGRADE,
    closing,
    dial,
    exchange,
    frame,
    head_of,
    request,
    rest_of,
    upgrade,
)
from tests.serve.recipes import with_recipes

CONNECTION, _, VERSION, KEY = UPGRADE


@pytest.fixture
def served(make: MakeConsole) -> Iterator[Console]:
    with serving(make) as console:
        yield console


def test_a_malformed_upgrade_gets_an_answer_and_an_end(served: Console) -> None:
    """Also what uvicorn leaves open without a word: a body, a header or a path that is too long."""
    host = f"127.0.0.1:{served.port}"
    many = [f"X-{number}: y" for number in range(200)]
    post = "POST /ws HTTP/1.1"
    without = {name: tuple(one for one in UPGRADE if one != name) for name in UPGRADE}
    refused = {
        "no key": (400, request(host, without[KEY], "GET /ws HTTP/1.1")),
        "no version": (400, request(host, without[VERSION], "GET /ws HTTP/1.1")),
        "not base64": (400, request(host, (*without[KEY], "Sec-WebSocket-Key: zz!"))),
        "a short key": (400, request(host, (*without[KEY], "Sec-WebSocket-Key: YWJj"))),
        "two keys": (400, upgrade(host, KEY)),
        "an old version": (400, request(host, (*without[VERSION], "Sec-WebSocket-Version: 8"))),
        "bad extensions": (400, upgrade(host, "Sec-WebSocket-Extensions: x; ;;=")),
        "a character": (400, upgrade(host, "Sec-WebSocket-Protocol: \x01")),
        "a body": (400, upgrade(host, "Content-Length: 5") + b"hello"),
        "a post": (405, request(host, UPGRADE, post)),
        "a post with a body": (400, request(host, (*UPGRADE, "Content-Length: 2"), post) + b"{}"),
        "a long header": (431, upgrade(host, "X: " + "x" * 9000)),
        "many headers": (431, upgrade(host, *many)),
        "a long path": (414, upgrade(host, path="/ws?" + "q" * 9000)),
        "a path that is no text": (403, upgrade(host, path="/%ff%00")),
        "a whole address": (403, upgrade(host, path=f"http://{host}/ws")),
        "nothing there": (403, upgrade(host, path="/nowhere")),
        "a broken origin": (403, upgrade(host, "Origin: \xff")),
    }
    for name, (status, sent) in refused.items():
        with dial(served.port) as line:
            line.sendall(sent)
            got = head_of(line)
            assert got.startswith(f"HTTP/1.1 {status} ".encode()), (name, got[:200])
            rest = rest_of(line)
            assert b"Traceback" not in got + rest, name
    # An upgrade to something else, or half of one, is a plain request: it needs the session.
    for headers in ([CONNECTION, VERSION, KEY], [CONNECTION, "Upgrade: h2c"]):
        got = exchange(served.port, request(host, headers, "GET /ws HTTP/1.1"))
        assert got.startswith(b"HTTP/1.1 401 "), got[:200]
    assert exchange(served.port, upgrade(host)).startswith(b"HTTP/1.1 101 ")


def opened(console: Console, *more: str) -> socket.socket:
    """A connection that has been upgraded and has had its `hello`."""
    line = dial(console.port)
    line.sendall(upgrade(f"127.0.0.1:{console.port}", *more))
    got = head_of(line)
    assert got.startswith(b"HTTP/1.1 101 ")
    while not (b"}" in got or (more and len(got.partition(b"\r\n\r\n")[2]) > 20)):
        got += line.recv(65536)
    return line


def test_a_malformed_frame_closes_with_its_code(served: Console) -> None:
    limit = MOST_FRAME
    refused = {
        "no mask": (1002, frame(TEXT, b"{}", is_masked=False)),
        "reserved bits": (1002, frame(TEXT, b"{}", bits=COMPRESSED)),
        "no such kind": (1002, frame(3, b"{}")),
        "a long ping": (1002, frame(PING, b"x" * 126)),
        "half a ping": (1002, frame(PING, b"x", is_last=False)),
        "nothing to go on from": (1002, frame(0, b"x")),
        "another message within": (1002, frame(TEXT, b"x", is_last=False) + frame(TEXT, b"x")),
        "half a code": (1002, frame(CLOSE, b"\x03")),
        "no such code": (1002, frame(CLOSE, closing(1))),
        "no text": (1007, frame(TEXT, b"\xff\xfe")),
        "too long": (1009, frame(TEXT, length=limit + 1)),
        "longer than memory": (1009, frame(TEXT, length=2**62)),
        "longer than any": (1009, frame(TEXT, length=2**63)),
        "too long in parts": (
            1009,
            frame(TEXT, b"x" * (limit // 2), is_last=False) + frame(0, length=limit // 2 + 1),
        ),
        "binary": (1003, frame(BINARY, b"x")),
        "binary in parts": (1003, frame(BINARY, b"x", is_last=False) + frame(0, b"x")),
    }
    for name, (code, sent) in refused.items():
        with opened(served) as line:
            line.sendall(sent)
            got = b""
            while len(got) < 4:
                got += line.recv(65536)
            assert got[:1] == bytes([0x80 | CLOSE]), (name, got)
            assert got[2:4] == closing(code), (name, got)


def test_a_frame_that_unpacks_to_more_than_the_limit_is_not_unpacked(served: Console) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -12)
    packed = packer.compress(b"x" * 5_000_000) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(packed) < MOST_FRAME
    wish = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=12"
    with opened(served, wish) as line:
        line.sendall(frame(TEXT, packed[:-4], bits=COMPRESSED))
        assert closing(1009) in rest_of(line)


def test_requests_that_come_byte_by_byte(served: Console) -> None:
    host = f"127.0.0.1:{served.port}"
    message = json.dumps({"type": "ping"}).encode()
    for sent, status in ((request(host), 200), (upgrade(host), 101)):
        with dial(served.port) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(len(sent)):
                line.sendall(sent[at : at + 1])
            assert head_of(line).startswith(f"HTTP/1.1 {status} ".encode())
    with opened(served) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # In two frames, a ping between them, and each in single bytes.
        parts = frame(TEXT, message[:5], is_last=False) + frame(PING, b"p") + frame(0, message[5:])
        for at in range(len(parts)):
            line.sendall(parts[at : at + 1])
        got = b""
        while b"pong" not in got:
            got += line.recv(65536)
        assert got.index(b"\x8a\x01p") < got.index(b"pong")


def test_a_client_that_shows_no_sign_of_life_is_closed(
    make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the minute that it has to say who it is."""
    monkeypatch.setattr(server, "_PING_S", 0.2)
    with serving(make) as console, dial(console.port) as line:
        line.sendall(upgrade(f"127.0.0.1:{console.port}"))
        got = rest_of(line)
        assert got.startswith(b"HTTP/1.1 101 ")
        assert closing(1011) + b"keepalive" in got


def test_clients_that_take_nothing_give_their_places_back(
    make: MakeConsole, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientProtocol, "taken_s", 0.3)
    monkeypatch.setattr(server, "_MOST_CLIENTS", 4)  # these three, and one that sees it
    abandon, given_up = PatientProtocol._abandon, set[int]()

    def abandon_and_tell(client: PatientProtocol) -> None:
        abandon(client)
        given_up.add(id(client))

    monkeypatch.setattr(PatientProtocol, "_abandon", abandon_and_tell)
    with_recipes(project).run("run", "hello").assert_success()
    with serving(make) as console, ExitStack() as stack:
        [(_, run)] = console.all_runs()
        size = 32 * 1024 * 1024  # more than the system keeps of what is sent
        with (run.logs / "orchestrator.log").open("r+b") as file:
            file.truncate(size)
        host = f"127.0.0.1:{console.port}"
        key = f"Authorization: Bearer {console.keys.api_key()}"
        asked = request(host, [key], f"GET /api/v1/runs/{run.id}/log/raw HTTP/1.1")
        lines = [stack.enter_context(dial(console.port)) for _ in range(3)]
        for line in lines:
            line.sendall(asked)
            assert line.recv(1, socket.MSG_PEEK), "it has its place"
        # None is read from before all of them are given up: it would be taking again.
        wait_until(lambda: len(given_up) == len(lines), "they keep their places", PATIENCE_S)
        assert exchange(console.port, request(host)).startswith(b"HTTP/1.1 200")
        for line in lines:
            got = head_of(line)
            assert got.startswith(b"HTTP/1.1 200 ")
            assert len(got) + len(rest_of(line)) < size


def test_pings_are_not_answered_into_our_memory(
    make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that never reads can send no more than the system keeps; then it is ended."""
    monkeypatch.setattr(PatientSocket, "taken_s", 0.3)
    with serving(make) as console, opened(console) as line:
        pings = frame(PING, b"x" * 125) * 1000
        with pytest.raises(ConnectionError):
            line.sendall(pings * 300)
