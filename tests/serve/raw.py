"""Bytes on a socket: what no client library sends."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

# What every WebSocket client says, but for its host.
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
COMPRESSED = 0x40
# Bounds a hang only.
PATIENCE_S = 60.0


def request(host: str, headers: Sequence[str] = (), line: str = "GET / HTTP/1.1") -> bytes:
    text = "\r\n".join((line, f"Host: {host}", *headers, "", ""))
    return text.encode("latin-1")


def upgrade(host: str, *more: str, path: str = "/ws") -> bytes:
    return request(host, (*UPGRADE, *more), f"GET {path} HTTP/1.1")


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def head_of(line: socket.socket) -> bytes:
    """What comes until an answer's headers have come, or the end."""
    got = b""
    while b"\r\n\r\n" not in got and (part := line.recv(65536)):
        got += part
    return got


def rest_of(line: socket.socket) -> bytes:
    """What comes until the other side ends the connection."""
    got = b""
    while part := line.recv(65536):
        got += part
    return got


def exchange(port: int, sent: bytes) -> bytes:
    with dial(port) as line:
        line.sendall(sent)
        return head_of(line)


def frame(
    kind: int,
    data: bytes = b"",
    *,
    is_last: bool = True,
    is_masked: bool = True,
    bits: int = 0,
    length: int | None = None,
) -> bytes:
    """A frame as a client sends it, its mask being zero; `length` is what it claims to have."""
    size = len(data) if length is None else length
    mask = 0x80 if is_masked else 0
    first = bytes([(0x80 if is_last else 0) | bits | kind])
    if size < 126:
        sizes = struct.pack("!B", mask | size)
    elif size < 65536:
        sizes = struct.pack("!BH", mask | 126, size)
    else:
        sizes = struct.pack("!BQ", mask | 127, size)
    return first + sizes + b"\0" * (4 if is_masked else 0) + data


def closing(code: int) -> bytes:
    """How a frame goes on that closes a connection with this code."""
    return struct.pack("!H", code)
