"""Permits: how many agents may run at once over a whole fleet (`limits.concurrent`).

A call asks the worker of its machine, through a socket; the worker asks the others by way of the
server (`fleet/permits`). One that is away is waited for, and told what is held when it is back.

    us      {"agent": "claude-code", "seconds": 165, "held": {}}     then {"give_back": true}
    worker  {"ahead": 2} ... {"held": {"claude-code": ["permit/claude-code/1", "5f2c..."]}}
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Loaded by the runs of a fleet alone: others have no permits.
    from socket import socket

SOCKET = "permits.sock"
# Where no call waits, a permit comes within this time, and nothing is said about it.
_SOON_S = 1.0
_PAUSE_S = 0.5


class Permit:
    """A place among all calls of an agent, until it is released."""

    def __init__(self, folder: Path, seconds: float, agent: str) -> None:
        self._folder = folder
        self._seconds = seconds
        self._agent = agent
        self._connection: socket | None = None
        self._received = b""
        self._ahead = 0
        self._held: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._soon = time.monotonic() + _SOON_S

    def ahead(self) -> int | None:
        """How many of this machine wait before it; None: the call may be made."""
        if self._connection is None and not self._connect():
            return self._ahead
        self._hear()
        if self._held is None:
            return self._ahead
        if self._held:
            threading.Thread(target=self._keep, daemon=True).start()
        return None

    def release(self) -> None:
        """The call is over, or is not made."""
        from socket import SHUT_RDWR

        with self._lock:
            self._is_over = True
            connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError):
                connection.sendall(b'{"give_back": true}\n')
                connection.shutdown(SHUT_RDWR)
            connection.close()

    def _connect(self) -> bool:
        order = {"agent": self._agent, "seconds": self._seconds, "held": self._held or {}}
        connection = connect(self._folder)
        if connection is None:
            return False
        try:
            connection.sendall(json.dumps(order).encode() + b"\n")
        except OSError:
            connection.close()
            return False
        with self._lock:
            if self._is_over:
                connection.close()
                return False
            self._connection = connection
        self._received = b""
        return True

    def _hear(self) -> None:
        """What the worker has said since; a permit that comes soon is waited for."""
        connection = self._connection
        assert connection is not None
        try:
            while self._held is None:
                connection.settimeout(max(0.0, self._soon - time.monotonic()))
                heard = connection.recv(4096)
                if not heard:
                    raise ConnectionError
                self._learn(heard)
        except (BlockingIOError, TimeoutError):
            return
        except OSError:
            self._let_go(connection)

    def _learn(self, heard: bytes) -> None:
        *lines, self._received = (self._received + heard).split(b"\n")
        for line in lines:
            document = json.loads(line)
            self._ahead = int(document.get("ahead", self._ahead))
            self._held = document.get("held", self._held)

    def _let_go(self, connection: socket) -> None:
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()

    def _keep(self) -> None:
        """Hold the connection while the call runs: to another worker, if the first one falls."""
        while not self._is_over:
            connection = self._connection
            if connection is None:
                if not self._connect():
                    time.sleep(_PAUSE_S)
                continue
            try:
                connection.settimeout(None)
                heard = connection.recv(4096)
            except OSError:
                heard = b""
            if heard:
                self._learn(heard)
            else:
                self._let_go(connection)


def connect(folder: Path) -> socket | None:
    """A connection to the worker of a root, if one listens."""
    from socket import AF_UNIX, SOCK_STREAM, socket

    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Paths of sockets are limited to about 100 bytes; through the descriptor any fits.
            through = f"/proc/self/fd/{handle}"
            short = through if os.path.isdir(through) else str(folder)
            connection.connect(f"{short}/{SOCKET}")
        finally:
            os.close(handle)
    except OSError:
        connection.close()
        return None
    return connection


def draw_permit(seat: Mapping[str, Any], agent: str) -> Permit | None:
    """The permit for a call, to be waited for; None where no worker gives any."""
    seconds = float(seat.get("permit_s", 0))
    return Permit(Path(seat["root"]), seconds, agent) if seconds else None
