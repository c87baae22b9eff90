"""A console over a project, in the test's process: by Starlette's client, or on a real socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from orchestrate.serve.app import make_app
from orchestrate.serve.console import Console
from orchestrate.serve.server import Wanted, config_of, make_console
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace

PORT = 8484
MakeConsole = Callable[..., Console]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / ".orchestrate").mkdir()
    return Project(folder)


@pytest.fixture
def make(project: Project) -> MakeConsole:
    def build(**more: object) -> Console:
        wanted = Wanted((open_workspace(project.folder),), port=PORT)
        for name, value in more.items():
            object.__setattr__(wanted, name, value)
        return make_console(wanted)

    return build


@pytest.fixture
def console(make: MakeConsole) -> Console:
    return make()


def client_of(console: Console, *, signed_in: bool = True) -> TestClient:
    client = TestClient(
        make_app(console),
        base_url=f"http://127.0.0.1:{console.port}",
        raise_server_exceptions=False,
        follow_redirects=False,
    )
    if signed_in:
        client.headers["authorization"] = f"Bearer {console.keys.api_key()}"
    return client


@pytest.fixture
def client(console: Console) -> TestClient:
    """A script with the key."""
    return client_of(console)


@pytest.fixture
def stranger(console: Console) -> TestClient:
    """Nobody that we know."""
    return client_of(console, signed_in=False)


@contextmanager
def serving(make: MakeConsole, **more: object) -> Iterator[Console]:
    """The console on a real socket, in a thread of this process."""
    listener = socket.create_server(("127.0.0.1", 0))
    console = make(port=listener.getsockname()[1], **more)
    server = uvicorn.Server(config_of(console))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    give_up = time.monotonic() + 10
    while not server.started and time.monotonic() < give_up:
        time.sleep(0.01)
    try:
        yield console
    finally:
        server.should_exit = server.force_exit = True
        thread.join(60)
        listener.close()
