"""Which names and origins reach the console: what a request says of them, judged before routing.

A page of another site can make a browser send requests here, under a name of its own that leads to
this machine (DNS rebinding). So the name must be one that we know, and the origin must be ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.record import record
from orchestrate.regex import regex

_HOST = regex(r"\A(\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z_.-]{1,253})(?::([0-9]{1,5}))?\Z")
_OWN = regex(r"\A127(\.[0-9]{1,3}){3}\Z")
_ORIGIN = regex(r"\A(https?)://([^/?#@\s]+)\Z")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_USUAL = {"http": 80, "https": 443}

Headers = Iterable[tuple[bytes, bytes]]


@record
class Refusal:
    """Why a request is answered with this status and nothing else."""

    status: int
    title: str
    detail: str


def header_of(headers: Headers, name: bytes) -> str | None:
    """The header, if it was sent once; `ValueError` if it was sent more often."""
    found = [value for key, value in headers if key == name]
    if len(found) > 1:
        raise ValueError(name.decode())
    return found[0].decode("latin-1") if found else None


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or _OWN.match(host) is not None


def split_host(text: str) -> tuple[str, int | None] | None:
    """The name and the port; None if it is not well-formed."""
    match = _HOST.match(text)
    if match is None:
        return None
    port = int(match[2]) if match[2] else None
    return (match[1].lower(), port) if port is None or port < 65536 else None


def judge(headers: Headers, allowed: frozenset[str]) -> Refusal | None:
    """None if the host is one of ours, and the origin the same one, or not said."""
    try:
        host = header_of(headers, b"host")
        origin = header_of(headers, b"origin")
    except ValueError as error:
        return Refusal(400, "Malformed request", f"the header '{error}' was sent twice")
    named = split_host(host) if host is not None else None
    if named is None:
        return Refusal(400, "Malformed request", "the Host header is missing or malformed")
    if named[0] not in allowed:
        return Refusal(
            403,
            "Host refused",
            f"this console does not answer to the host '{named[0]}'; if it is meant to: "
            f"orchestrate serve --allow-host {named[0]}",
        )
    if origin is not None and not _is_same(origin, named):
        return Refusal(403, "Origin refused", "requests of other pages are refused")
    return None


def _is_same(origin: str, host: tuple[str, int | None]) -> bool:
    """Another port is another origin. https stands for a proxy in front of an allowed name."""
    match = _ORIGIN.match(origin)
    named = split_host(match[2]) if match is not None else None
    if match is None or named is None or named[0] != host[0]:
        return False
    if match[1] == "https" and host[0] in LOOPBACK:
        return False
    usual = _USUAL[match[1]]
    return (named[1] or usual) == (host[1] or usual)
