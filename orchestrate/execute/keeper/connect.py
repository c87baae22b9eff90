"""The way to a run's keeper: its socket, and which process is behind it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestrate.errors import ConfigError, linked_copy
from orchestrate.execute.keeper.identity import has_identity, known_token
from orchestrate.execute.keeper.protocol import KEEPER_ENDING, LOG, SOCKET
from orchestrate.execute.keeper.standard import socket
from orchestrate.installation import replacement_of

GONE = b"the run's keeper is gone"


class KeeperGoneError(ConfigError):
    """The keeper has ended, or is about to, and has not claimed the attempt; another one may."""


def refusal(why: bytes) -> ConfigError:
    """An attempt that was not claimed, and what the keeper said to that."""
    message = f"the program was not started: {why.decode('utf-8', 'replace')}"
    is_gone = why in (GONE, KEEPER_ENDING.encode("ascii"))
    return KeeperGoneError(message) if is_gone else ConfigError(message)


def connect(folder: Path) -> socket.socket | None:
    """A connection to the keeper of a folder, if one listens."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Paths of sockets are limited to about 100 bytes; through the descriptor any folder fits.
        through = f"/proc/self/fd/{handle}"
        short = through if os.path.isdir(through) else str(folder)
        sock.connect(f"{short}/{SOCKET}")
    except (FileNotFoundError, ConnectionError):
        sock.close()
        return None
    finally:
        os.close(handle)
    _refuse_linked(sock, folder.parent)
    return sock


def _refuse_linked(sock: socket.socket, run_dir: Path) -> None:
    """A keeper listens, but the run's identity is another place's: its files are hard links.

    So the socket, the lock and the journal of a copy are those of the original.
    """
    if not has_identity(str(run_dir)) or known_token(str(run_dir)):
        return
    sock.close()
    raise linked_copy(run_dir)


def peer_of(sock: socket.socket) -> int:
    """The process at the other end; 0 where the system does not say."""
    try:
        data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except (AttributeError, OSError):
        return 0
    return int.from_bytes(data[:4], sys.byteorder)


def no_keeper(folder: Path, why: str) -> ConfigError:
    """Why there is none, and what to do about it."""
    if "cannot be ended" in why or "does not end" in why:
        return ConfigError(
            f"nothing was started: {why}", "end it yourself (kill -9 and its number), then resume"
        )
    fault = ConfigError(
        f"the run's keeper did not start: {why or 'it ended at once'}", f"see {folder / LOG}"
    )
    # It is the same program as we, from the same place.
    return replacement_of(fault, folder.parent.name) or fault
