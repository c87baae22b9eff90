"""Secrets in a stream of bytes become `***`, in every spelling in which programs print them.

A secret is looked for raw and JSON-escaped, URL-encoded, in base64 (at all three alignments, and
wrapped), in hex, quoted for a shell; a secret of several lines also line by line. What is masked
does not depend on how the stream was cut into reads: bytes that may be the beginning of a secret
are held back until it is clear.
"""

from __future__ import annotations

import binascii
import json
import re
from bisect import bisect_left
from collections.abc import Iterable

MASK = b"***"
# Encoded forms and lines of very short values would match by accident all over the output.
_SHORTEST_ENCODED = 4
_SHORTEST_LINE = 6
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_FOR_SHELL = re.compile(rb"([^A-Za-z0-9_@%+=:,./-])")


class Mask:
    """Knows the secrets; masks whole texts. `Stream` does the same for a text that arrives."""

    def __init__(self, secrets: Iterable[str | bytes]) -> None:
        values = [
            s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s for s in secrets
        ]
        forms = {form for value in values if value for form in forms_of(value)}
        self.forms = sorted(forms)
        self.longest = max(map(len, forms), default=0)
        by_length = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile(b"|".join(map(re.escape, by_length)))
        starts = {re.escape(form[:3]) for form in forms}
        self._starts = re.compile(b"(?=" + b"|".join(sorted(starts)) + b")")

    def apply(self, data: bytes) -> bytes:
        """The data with all secrets masked."""
        # Looking for each form is much faster than the pattern, and mostly there is none.
        if not any(form in data for form in self.forms):
            return data
        return self._pattern.sub(MASK, data)

    def cut(self, data: bytes) -> tuple[bytes, bytes]:
        """What can be passed on now, masked, and what has to wait for the bytes after it."""
        limit = self._first_open(data)
        if not any(form in data for form in self.forms):
            return data[:limit], data[limit:]
        out: list[bytes] = []
        done = 0
        for found in self._pattern.finditer(data):
            if found.start() >= limit:
                break
            out += (data[done : found.start()], MASK)
            done = found.end()
        if done < limit:
            out.append(data[done:limit])
            done = limit
        return b"".join(out), data[done:]

    def _first_open(self, data: bytes) -> int:
        """The first place from which the data, to its end, is the beginning of a longer form."""
        near_end = max(len(data) - self.longest + 1, 0)
        for found in self._starts.finditer(data, near_end):
            if self._begins_form(data[found.start() :]):
                return found.start()
        for place in range(max(len(data) - 2, near_end), len(data)):
            if self._begins_form(data[place:]):
                return place
        return len(data)

    def _begins_form(self, tail: bytes) -> bool:
        place = bisect_left(self.forms, tail)
        if place < len(self.forms) and self.forms[place] == tail:
            place += 1
        return place < len(self.forms) and self.forms[place].startswith(tail)


class Stream:
    """Masks data that arrives in pieces; holds back at most one byte less than the longest form."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if not self._mask.forms:
            return data
        out, self._held = self._mask.cut(self._held + data)
        return out

    def finish(self) -> bytes:
        out, self._held = self._mask.apply(self._held) if self._held else b"", b""
        return out


def forms_of(secret: bytes) -> set[bytes]:
    """All spellings of a secret."""
    forms = {secret} | _encoded(secret)
    lines = {line.strip() for line in secret.splitlines()}
    if len(lines) > 1:
        for line in lines:
            if len(line) >= _SHORTEST_LINE:
                forms |= {line} | _encoded(line)
    return forms


def _encoded(value: bytes) -> set[bytes]:
    if len(value) < _SHORTEST_ENCODED:
        return set()
    forms = _in_json(value) | _in_url(value) | _in_base64(value) | _in_shell(value)
    digits = binascii.hexlify(value)
    return forms | {digits, digits.upper()}


def _in_json(value: bytes) -> set[bytes]:
    """As the inside of a JSON string, and of one inside another, as agents' event streams have."""
    forms: set[bytes] = set()
    text = value.decode("utf-8", "replace")
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        twice = json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        for form in (once, once.replace("/", "\\/"), twice):
            forms.add(form.encode("utf-8", "replace"))
    return forms


def _in_url(value: bytes) -> set[bytes]:
    strict = b"".join(b"%c" % b if b in _UNRESERVED else b"%%%02X" % b for b in value)
    forms = {strict, strict.replace(b"%2F", b"/"), strict.replace(b"%20", b"+")}
    return forms | {re.sub(rb"%[0-9A-F]{2}", lambda m: m[0].lower(), form) for form in forms}


def _in_base64(value: bytes) -> set[bytes]:
    """Alone and in the middle of something longer; only characters that the secret decides."""
    forms: set[bytes] = set()
    whole = binascii.b2a_base64(value, newline=False)
    forms |= {whole, whole.rstrip(b"=")}
    for width in (76, 64):
        lines = [whole[i : i + width] for i in range(0, len(whole), width)]
        forms |= {line for line in lines if len(line) >= 8} if len(lines) > 1 else set()
    for before in range(3):
        padded = binascii.b2a_base64(b"\0" * before + value, newline=False)
        first = (before * 8 + 5) // 6
        inner = padded[first : (before + len(value)) * 8 // 6]
        if len(inner) >= 4:
            forms.add(inner)
    return forms | {form.translate(bytes.maketrans(b"+/", b"-_")) for form in forms}


def _in_shell(value: bytes) -> set[bytes]:
    """Inside single quotes (two customs), double quotes, `$'…'`, and with backslashes."""
    c_style = value.replace(b"\\", b"\\\\").replace(b"'", b"\\'")
    for raw, escape in ((b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r")):
        c_style = c_style.replace(raw, escape)
    return {
        value.replace(b"'", b"'\"'\"'"),
        value.replace(b"'", b"'\\''"),
        re.sub(rb'([$`"\\])', rb"\\\1", value),
        _FOR_SHELL.sub(rb"\\\1", value),
        c_style,
    }
