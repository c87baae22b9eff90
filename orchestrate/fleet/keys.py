"""The keys of a fleet, and what they encrypt: AES-256-GCM, by keys that have names.

The first key of the file seals and all of
them open, so that a key is replaced by putting a new one before it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from orchestrate.errors import ConfigError
from orchestrate.fleet.extra import require_extra
from orchestrate.fleet.settings import keys_file, refuse_readable
from orchestrate.regex import regex

_LINE = regex(r"([A-Za-z0-9_.-]{1,64})\s+([0-9A-Fa-f]{64})\Z")
_NONCE = 12


class SealError(ConfigError):
    """What was sealed cannot be opened: the key is not here, or the bytes were changed."""


class Keys:
    """The keys by their names; the first seals."""

    def __init__(self, keys: Mapping[str, bytes], source: str) -> None:
        require_extra()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self._source = source
        self.first = next(iter(keys))
        # For nonces that are made from what is sealed: another key than the one that encrypts.
        self._for_nonces = hmac.digest(keys[self.first], b"orchestrate nonces", hashlib.sha256)

    def seal(self, clear: bytes) -> bytes:
        """Encrypted, so that without the key it cannot be read, nor changed unnoticed."""
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[self.first].encrypt(nonce, clear, self.first.encode())

    def seal_alike(self, clear: bytes, where: bytes) -> bytes:
        """Sealed for one place, and always to the same bytes: git then sees what is unchanged."""
        given = len(where).to_bytes(4, "big") + where + clear
        nonce = hmac.digest(self._for_nonces, given, hashlib.sha256)[:_NONCE]
        return nonce + self._ciphers[self.first].encrypt(nonce, clear, self.first.encode() + where)

    def open(self, name: str, sealed: bytes, where: bytes = b"") -> bytes:
        """What was sealed with the key of that name, for that place."""
        from cryptography.exceptions import InvalidTag

        if name not in self._ciphers:
            raise SealError(f"the key '{name}' is not in {self._source}", "add its line there")
        nonce, body = sealed[:_NONCE], sealed[_NONCE:]
        try:
            return self._ciphers[name].decrypt(nonce, body, name.encode() + where)
        except (InvalidTag, ValueError):
            raise SealError(f"the key '{name}' of {self._source} does not open it") from None


def fleet_keys(environment: Mapping[str, str] = os.environ) -> Keys | None:
    """The keys that the user's settings name; None if they name none."""
    path = keys_file(environment)
    return None if path is None else read_keys(path)


def read_keys(path: Path) -> Keys:
    """The keys of a file; what is wrong with it is refused with its line, never its content."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"the key file {path} (keys) cannot be read: {error.strerror}",
            f'make one: (umask 077; echo "one $(openssl rand -hex 32)" > {path})',
        ) from error
    except UnicodeDecodeError:
        raise ConfigError(f"the key file {path} is not text") from None
    refuse_readable(path)
    keys: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.match(line.strip())
        if match is None or match[1] in keys:
            what = "names a key again" if match else "is not `ID HEX64`"
            raise ConfigError(
                f"{path}:{number}:1: the line {what}", "a name, a space, 64 hexadecimal digits"
            )
        keys[match[1]] = bytes.fromhex(match[2])
    if not keys:
        raise ConfigError(f"the key file {path} has no key", "a line for each: ID HEX64")
    return Keys(keys, str(path))
