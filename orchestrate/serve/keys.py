"""Who may use the console: the user's key, one-time links, and cookies bound to this server.

The key is a file of the user; cookies are signed with what it holds, so that a new key revokes all
of them, in running servers too. A one-time link is a file named by its digest: the process
that removes that file has used the link up, in whichever process it was made.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from orchestrate.errors import ConfigError, explain
from orchestrate.state.durable import read_file, write_durably
from orchestrate.state.locks import user_state_folder

LINK_S = 120
COOKIE_S = 30 * 86400
_KEY_BYTES = 32


def key_file(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/orchestrate/api-key`."""
    given = environment.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "orchestrate" / "api-key"
    home = environment.get("HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("there is no home folder to keep the key in", "set HOME")
    return Path(home) / ".config" / "orchestrate" / "api-key"


def serve_folder(environment: Mapping[str, str]) -> Path:
    """Where servers of this user note themselves and their links."""
    folder = user_state_folder(environment) / "serve"
    make_private(folder)
    return folder


def make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explain("make", folder, error) from error


def new_key(path: Path) -> str:
    """Replace the key: cookies and scripts that have the old one are refused from now on."""
    make_private(path.parent)
    key = secrets.token_urlsafe(_KEY_BYTES)
    write_durably(path, f"{key}\n".encode())
    return key


def make_link(folder: Path) -> str:
    """The secret of a new link, which one client can use once, within two minutes."""
    make_private(folder)
    for path in folder.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - LINK_S:
                path.unlink()
    secret = secrets.token_urlsafe(24)
    descriptor = os.open(folder / _digest(secret), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.close(descriptor)
    return secret


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class AccessKeys:
    """What one server accepts."""

    def __init__(self, key_path: Path, links: Path, port: int) -> None:
        self._path = key_path
        self._links = links
        self._port = port
        self._seen: tuple[int, int] = (0, 0)
        self._key = ""

    @property
    def cookie_name(self) -> str:
        """The port is in it: a browser sends the cookies of a host to all of its ports."""
        return f"orchestrate-{self._port}"

    def api_key(self) -> str:
        """The user's key, made on first use; looked at each time, so that a new one holds."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            new_key(self._path)
            found = os.lstat(self._path)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise ConfigError(
                f"{self._path} can be read by others, or is not a file", f"chmod 600 {self._path}"
            )
        seen = (found.st_mtime_ns, found.st_ino)
        if seen != self._seen:
            key = (read_file(self._path) or b"").decode("ascii", "replace").strip()
            if len(key) < 20:
                raise ConfigError(
                    f"{self._path} holds no key", "make one: orchestrate serve --new-key"
                )
            self._key, self._seen = key, seen
        return self._key

    def is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self.api_key().encode())

    def link(self) -> str:
        return make_link(self._links)

    def use_link(self, secret: str) -> bool:
        """True once for each link, and not when it is too old."""
        path = self._links / _digest(secret)
        try:
            made = path.stat().st_mtime
            path.unlink()
        except OSError:
            return False
        return 0 <= time.time() - made + 1 <= LINK_S + 1

    def cookie(self) -> str:
        until = str(int(time.time()) + COOKIE_S)
        nonce = secrets.token_urlsafe(12)
        return f"{until}.{nonce}.{self._sign(until, nonce)}"

    def is_cookie(self, value: str) -> bool:
        parts = value.split(".")
        if len(parts) != 3 or not parts[0].isascii() or not parts[0].isdigit():
            return False
        until, nonce, mark = parts
        is_ours = hmac.compare_digest(mark.encode(), self._sign(until, nonce).encode())
        return is_ours and int(until[:12]) > time.time()

    def _sign(self, until: str, nonce: str) -> str:
        told = f"cookie:{self._port}:{until}:{nonce}"
        return hmac.new(self.api_key().encode(), told.encode(), sha256).hexdigest()
