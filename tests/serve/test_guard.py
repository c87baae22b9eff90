"""The guard: who may come in, by which name, from which page, and with what (serve.md §2)."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from orchestrate.serve import guard, protocol
from orchestrate.serve.api import OPERATIONS
from orchestrate.serve.console import Console
from orchestrate.serve.guard import MOST_BODY
from orchestrate.serve.hosts import judge
from orchestrate.serve.keys import LINK_S, key_file, new_key
from orchestrate.serve.operations import Operation
from orchestrate.serve.patience import PatientProtocol
from orchestrate.serve.server import Wanted, check_hosts, link_of_running
from orchestrate.serve.ways_in import address_of
from orchestrate.state.locks import user_state_folder
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace
from tests.serve.conftest import PORT, MakeConsole, client_of, serving
from tests.serve.raw import dial, exchange, rest_of, upgrade

if TYPE_CHECKING:
    from pathlib import Path

HERE = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HERE}"
SESSION = "/api/v1/session"


def judged(*headers: tuple[str, str]) -> int:
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    refused = judge(sent, frozenset(("localhost", "127.0.0.1", "[::1]", "box.tail.net")))
    return 200 if refused is None else refused.status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9000", 200),  # ssh -L: the port is not checked
        ("LOCALHOST:8484", 200),
        ("[::1]:8484", 200),
        ("box.tail.net", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8484", 403),
        ("localhost.", 403),
        ("192.168.1.7:8484", 403),
        ("127.1", 403),
        ("0.0.0.0:8484", 403),
        ("", 400),
        ("user@127.0.0.1", 400),
        ("127.0.0.1:", 400),
        ("127.0.0.1:99999", 400),
        ("127.0.0.1:8484, evil.example", 400),
        ("[::1", 400),
        ("127.0.0.1/../x", 400),
        ("127.0.0.1\x00", 400),
        ("löcalhost", 400),
    ],
)
def test_host(host: str, status: int) -> None:
    assert judged(("host", host)) == status


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (HERE, ORIGIN, 200),
        ("localhost:8484", "http://localhost:8484", 200),
        ("box.tail.net", "https://box.tail.net", 200),
        ("box.tail.net", "http://box.tail.net", 200),
        (HERE, "https://127.0.0.1:8484", 403),
        (HERE, "http://127.0.0.1:3000", 403),
        (HERE, "http://127.0.0.1", 403),
        (HERE, "http://localhost:8484", 403),
        (HERE, "null", 403),
        (HERE, "", 403),
        (HERE, "http://evil.example", 403),
        (HERE, "http://127.0.0.1:8484@evil.example", 403),
        (HERE, "chrome-extension://abc", 403),
        (HERE, f"{ORIGIN}/", 403),
    ],
)
def test_origin(host: str, origin: str, status: int) -> None:
    assert judged(("host", host), ("origin", origin)) == status


def test_headers_that_are_sent_twice_are_refused() -> None:
    assert judged(("host", HERE), ("host", HERE)) == 400
    assert judged(("host", HERE), ("origin", ORIGIN), ("origin", ORIGIN)) == 400
    assert judged() == 400


def test_a_refused_host_is_told_the_flag_and_the_ways_in(stranger: TestClient) -> None:
    page = stranger.get("/", headers={"host": "box.lan:8484", "accept": "text/html"})
    assert page.status_code == 403
    assert "--allow-host box.lan" in page.text
    assert "ssh -L 8484:127.0.0.1:8484" in page.text
    assert "tailscale serve" in page.text
    assert "<script" not in page.text


def test_host_and_origin_come_before_the_key(client: TestClient) -> None:
    assert client.get("/api/v1/nothing", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/", headers={"origin": "http://evil.example"}).status_code == 403


def test_every_route_needs_a_session_but_the_shell_and_its_files(stranger: TestClient) -> None:
    for path in ("/runs", "/inbox", "/api/v1/runs", "/api/v1/openapi.json", "/nowhere", "/static"):
        assert stranger.get(path).status_code == 401, path
        assert stranger.post(path, json={}).status_code == 401, path
    assert stranger.get("/").status_code == 200
    assert stranger.get("/static/console.css").status_code == 200
    assert stranger.post("/", json={}).status_code == 401
    # A page without a session is the one that signs in, and says so by its status.
    page = stranger.get("/runs/x", headers={"accept": "text/html"})
    assert page.status_code == 401
    assert "orchestrate serve --link" in page.text


def test_there_is_no_way_out_of_the_folder_of_files(client: TestClient) -> None:
    for path in ("/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/"):
        assert client.get(path).status_code == 404, path


def test_headers_of_every_answer(client: TestClient, stranger: TestClient) -> None:
    refused = stranger.get("/", headers={"host": "evil.example"})
    for answer in (client.get("/"), stranger.get("/runs"), refused, client.get("/nothing")):
        headers = answer.headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert len(headers.get_list("date")) == 1
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert not [name for name in headers if name.startswith("access-control")]
        assert "server" not in headers


def test_pages_have_no_inline_script_or_style(stranger: TestClient) -> None:
    for path in ("/", "/runs"):
        text = stranger.get(path, headers={"accept": "text/html"}).text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count('<script type="module" src="/static/')


def test_a_link_signs_one_browser_in_once(console: Console, stranger: TestClient) -> None:
    link = console.keys.link()
    first = stranger.post(SESSION, json={"link": link}, headers={"origin": ORIGIN})
    assert first.status_code == 200
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert cookie.startswith(f"orchestrate-{PORT}=")
    assert stranger.get("/nowhere").status_code == 404  # the client has the cookie now
    again = client_of(console, signed_in=False).post(SESSION, json={"link": link})
    assert again.status_code == 401
    assert again.json()["exit_code"] == 2
    assert "set-cookie" not in again.headers


def test_a_link_lasts_two_minutes(console: Console, stranger: TestClient) -> None:
    link = console.keys.link()
    past = time.time() - LINK_S - 1
    [path] = console.keys._links.iterdir()
    os.utime(path, (past, past))
    assert stranger.post(SESSION, json={"link": link}).status_code == 401


def test_a_form_signs_in_with_the_key(console: Console, stranger: TestClient) -> None:
    wrong = stranger.post(SESSION, data={"key": "x"}, headers={"origin": ORIGIN})
    assert wrong.status_code == 401
    key = console.keys.api_key()
    right = stranger.post(SESSION, data={"key": key}, headers={"origin": ORIGIN})
    assert right.status_code == 303
    assert right.headers["location"] == "/"
    # Another page cannot sign a browser in.
    foreign = stranger.post(SESSION, data={"key": key}, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    many = {f"field{n}": "x" for n in range(9)}
    assert stranger.post(SESSION, data=many, headers={"origin": ORIGIN}).status_code == 400


def test_a_cookie_is_of_one_server_and_one_key(make: MakeConsole) -> None:
    here, other = make(), make(port=PORT + 1)
    cookie = here.keys.cookie()
    assert here.keys.is_cookie(cookie)
    assert make().keys.is_cookie(cookie), "it holds over restarts"
    assert not other.keys.is_cookie(cookie)
    assert not here.keys.is_cookie(cookie[:-1] + ("0" if cookie[-1] != "0" else "1"))
    late = cookie.replace(cookie.partition(".")[0], "1", 1)
    for bad in ("", "a.b", "..", late, "\uff19.x.y", "9" * 400 + ".a.b"):
        assert not here.keys.is_cookie(bad)
    new_key(key_file(os.environ))
    assert not here.keys.is_cookie(cookie), "a new key revokes it at once"


def test_a_cookie_needs_an_origin_for_changes(console: Console) -> None:
    page = client_of(console, signed_in=False)
    page.cookies.set(console.keys.cookie_name, console.keys.cookie())
    assert page.get("/nowhere").status_code == 404
    assert page.delete(SESSION).status_code == 403
    elsewhere = {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}
    assert page.get("/nowhere", headers=elsewhere).status_code == 403, "another port of this host"
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert page.get("/nowhere", headers=followed).status_code == 404
    right = {"origin": ORIGIN, "content-type": "application/json"}
    assert page.delete(SESSION, headers=right).status_code == 200


CHANGES = [operation for operation in OPERATIONS if operation.method != "GET"]


@pytest.mark.parametrize("operation", CHANGES, ids=lambda operation: operation.name)
def test_no_change_is_made_for_another_page(operation: Operation, console: Console) -> None:
    """Whatever the route: what a foreign page can make a browser send is refused before it."""
    path = re.sub(r"{\w+}", "20250115T143022Z-a3f8c2", operation.path)
    page = client_of(console, signed_in=False)

    def status(**headers: str) -> int:
        sent = {"content-type": "application/json", **headers}
        return page.request(operation.method, path, content=b"{}", headers=sent).status_code

    assert status(origin=ORIGIN) == 401
    page.cookies.set(console.keys.cookie_name, console.keys.cookie())
    for origin in ("http://evil.example", f"http://127.0.0.1:{PORT + 1}", "null"):
        assert status(origin=origin) == 403
    assert status() == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert status(origin=ORIGIN, **{"content-type": kind}) == 415
    assert not (user_state_folder(os.environ) / "audit.jsonl").exists()


def test_a_wrong_key_is_not_helped_by_a_cookie(console: Console) -> None:
    page = client_of(console, signed_in=False)
    page.cookies.set(console.keys.cookie_name, console.keys.cookie())
    for given in ("Bearer x", "Bearer ", "Basic eDp5", "Bearer \xff"):
        sent = {"authorization": given.encode("latin-1")}
        assert page.get("/nowhere", headers=sent).status_code == 401  # type: ignore[arg-type]


def test_the_key_is_private(console: Console, project: Project) -> None:
    key = console.keys.api_key()
    path = key_file(os.environ)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(key) >= 40
    path.chmod(0o644)
    answer = client_of(console, signed_in=False).get(
        "/runs", headers={"authorization": f"Bearer {key}"}
    )
    assert answer.status_code == 409
    assert "chmod 600" in answer.json()["hint"]


def test_bodies_are_json_and_small(client: TestClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = client.post("/nowhere", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415, kind
    large = client.post(SESSION, json={"link": "x" * MOST_BODY})
    assert large.status_code == 413
    half = b'{"key": "\\ud800"}'
    for body in (b"{", b"[]", b"\xff", b"[" * 100_000, half):
        answer = client.post(SESSION, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
    assert client.get("/?" + "q" * 9000).status_code == 414


def test_answers_are_problem_documents(client: TestClient) -> None:
    answer = client.get("/nowhere")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 404
    assert client.put("/", json={}).status_code == 405


def test_read_only_and_the_record_of_changes(make: MakeConsole, tmp_path: Path) -> None:
    make().change("key", "127.0.0.1", "cancel", "some-run")
    path = tmp_path / "XDG_STATE_HOME" / "orchestrate" / "audit.jsonl"
    [line] = path.read_text().splitlines()
    told = json.loads(line)
    assert (told["who"], told["what"], told["run"]) == ("key", "cancel", "some-run")
    assert told["from"] == "127.0.0.1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Exception, match="--read-only"):
        make(read_only=True).change("page", "127.0.0.1", "start")
    assert len(path.read_text().splitlines()) == 1


def test_another_interface_needs_a_name(project: Project) -> None:
    workspace = open_workspace(project.folder)
    with pytest.raises(Exception, match="--allow-host"):
        check_hosts(Wanted((workspace,), host="0.0.0.0"))
    check_hosts(Wanted((workspace,), host="0.0.0.0", allowed=("box.lan",)))
    with pytest.raises(Exception, match="--allow-host"):
        check_hosts(Wanted((workspace,), host="127.evil.example"))
    for name in ("https://box.lan", "box.lan:8484", "a b", ""):
        with pytest.raises(Exception, match="is not the name of a host"):
            check_hosts(Wanted((workspace,), allowed=(name,)))


def test_the_printed_address_is_not_refused(make: MakeConsole) -> None:
    for host, allowed, address in (
        ("127.0.0.1", (), "http://127.0.0.1:8484/"),
        ("127.0.0.2", (), "http://127.0.0.2:8484/"),
        ("::1", (), "http://[::1]:8484/"),
        ("0.0.0.0", ("box.lan",), "http://127.0.0.1:8484/"),
        ("192.0.2.7", ("box.lan",), "http://box.lan:8484/"),
        ("192.0.2.7", ("192.0.2.7",), "http://192.0.2.7:8484/"),
    ):
        console = make(host=host, allowed=allowed)
        assert address_of(console) == address
        named = address.removeprefix("http://").rstrip("/")
        assert judge([(b"host", named.encode())], console.hosts) is None


def test_raw_requests(make: MakeConsole) -> None:
    """What no client library sends: each gets a 4xx and the server goes on."""
    with serving(make) as console:
        port = console.port
        host = f"127.0.0.1:{port}"
        refused = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\xff\r\n\r\n",
            b"GET /%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
            (
                b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
            ),
            (
                b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
                b"Content-Length: 2\r\n\r\n{}"
            ),
            upgrade("evil.example"),
            upgrade(host, "Origin: http://evil.example"),
            upgrade(host, "Origin: null"),
            upgrade(host, path="/api/v1/stream"),
            # A cookie without an origin is not from our page.
            upgrade(
                host,
                f"Cookie: {console.keys.cookie_name}={console.keys.cookie()}",
                path="/api/v1/stream",
            ),
        ]
        for sent in refused:
            got = exchange(port, sent)
            assert got.startswith(b"HTTP/1.1 4"), (sent[:200], got[:200])
            assert b"Traceback" not in got
        # A slow client keeps no other one waiting.
        with dial(port) as slow:
            slow.sendall(
                b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
            )
            ok = exchange(port, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert ok.startswith(b"HTTP/1.1 200")


def test_link_without_a_server_says_what_to_do(project: Project) -> None:
    with pytest.raises(Exception, match="no console runs"):
        link_of_running(open_workspace(project.folder), None)


def test_headers_that_never_end_are_not_waited_for(
    make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than the server has places for: then it answers again."""
    monkeypatch.setattr(PatientProtocol, "headers_s", 0.3)
    with serving(make) as console, ExitStack() as stack:
        ok = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{console.port}\r\n\r\n".encode()
        begun = [b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b""]
        slow = []
        # The first has had an answer, and begins a second request.
        for sent in (ok + b"GET", *begun * 100):
            line = stack.enter_context(dial(console.port))
            line.sendall(sent)
            slow.append(line)
        for line in slow:
            got = rest_of(line)
            assert b"HTTP/1.1 408" in got, got[:200]
        assert exchange(console.port, ok).startswith(b"HTTP/1.1 200")


def test_a_body_that_never_comes_is_not_waited_for(
    make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_BODY_S", 0.2)
    with serving(make) as console:
        begun = (
            b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
        )
        assert exchange(console.port, begun).startswith(b"HTTP/1.1 408")


def test_a_client_that_does_not_connect_is_closed(
    make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CONNECT_S", 0.2)
    with serving(make) as console, connect(f"ws://127.0.0.1:{console.port}/ws") as line:
        assert json.loads(line.recv(60))["type"] == "hello"
        assert json.loads(line.recv(60))["type"] == "auth_error"
        with pytest.raises(ConnectionClosed) as closed:
            line.recv(60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
