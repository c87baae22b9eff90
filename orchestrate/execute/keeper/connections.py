"""The keeper's connections: to its clients, which it never waits for, and to its wardens."""

from __future__ import annotations

from orchestrate.execute.keeper.protocol import Frames, encode
from orchestrate.execute.keeper.standard import socket

_SEND_LIMIT = 1 << 26


class Connection:
    """A connection to a client, or to a warden."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fd = sock.fileno()
        self._frames = Frames()
        self.unsent = b""
        # Is it polled for room to send in, too?
        self.is_behind = False
        # Attempts that the client has stopped before it asked for them, with reason and grace.
        self.early_stops: dict[str, tuple[bytes, float]] = {}

    def receive(self) -> list[tuple[list[str], bytes]] | None:
        """What has arrived; None when the other side is gone."""
        try:
            data = self._sock.recv(1 << 16, socket.MSG_DONTWAIT)
            return self._frames.feed(data) if data else None
        except (BlockingIOError, InterruptedError):
            return []
        except (OSError, ValueError):
            return None

    def send(self, message: bytes = b"") -> bool:
        """Send as much as the other side takes now; False when it is gone or does not read."""
        unsent = self.unsent + message
        try:
            while unsent:
                unsent = unsent[self._sock.send(unsent, socket.MSG_DONTWAIT) :]
        except (BlockingIOError, InterruptedError):
            self.unsent = unsent
            return len(unsent) < _SEND_LIMIT
        except OSError:
            return False
        self.unsent = b""
        return True

    def is_there(self) -> bool:
        """Has the other side not ended? What it said meanwhile is still to be received."""
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False

    def close(self) -> None:
        self._sock.close()


class WardenConnection(Connection):
    """A warden, the attempt that it watches, and the clients that wait for its end."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        super().__init__(sock)
        self.pid = pid
        self.attempt = ""
        self.watchers: set[int] = set()

    def prepare(self, attempt: str, request: bytes) -> None:
        self.attempt = attempt
        self._order(f"prepare {attempt}", request)

    def go(self) -> None:
        self._order("go")

    def drop(self) -> None:
        self._order("drop")

    def stop(self, reason: bytes, grace_s: float) -> None:
        self._order(f"stop {self.attempt} {grace_s!r}", reason)

    def renew(self, until: float) -> None:
        self._order(f"renew {self.attempt} {until!r}")

    def _order(self, words: str, body: bytes = b"") -> None:
        """Wardens always listen, so this may wait; if one died, its line will say so."""
        try:
            self._sock.sendall(encode(words, body))
        except OSError:
            return
