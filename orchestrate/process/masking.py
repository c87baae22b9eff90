"""Secrets in a stream of bytes become `***`, in every spelling in which programs print them.

A secret is looked for raw and JSON-escaped, URL-encoded, in base64 (at all three alignments, and
wrapped), in hex, quoted for a shell; a secret of several lines also line by line. What is masked
does not depend on how the stream was cut into reads: bytes that may be the beginning of a secret
are held back until it is clear.
"""

from __future__ import annotations

import binascii

from orchestrate.process.journal import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK = b"***"
# Encoded forms and lines of very short values would match by accident all over the output.
_SHORTEST_ENCODED = 4
_SHORTEST_LINE = 6
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_BARE_IN_SHELL = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
)
_SPECIAL_IN_DOUBLE_QUOTES = frozenset(b'$`"\\')


class Mask:
    """Knows the secrets; masks whole texts. `Stream` does the same for a text that arrives."""

    def __init__(self, secrets: Iterable[str | bytes]) -> None:
        values = [
            s.encode("utf-8", "surrogateescape") if isinstance(s, str) else s for s in secrets
        ]
        # The longest first: of two that begin at one place it is the one to mask.
        forms = {form for value in values if value for form in forms_of(value)}
        self.forms = sorted(forms, key=lambda form: (-len(form), form))
        self._longest = max(map(len, forms), default=0)

    def apply(self, data: bytes) -> bytes:
        """The data with all secrets masked."""
        masked, _ = self._mask_up_to(data, len(data))
        return masked

    def cut(self, data: bytes) -> tuple[bytes, bytes]:
        """What can be passed on now, masked, and what has to wait for the bytes after it."""
        return self._mask_up_to(data, self._first_open(data))

    def _mask_up_to(self, data: bytes, limit: int) -> tuple[bytes, bytes]:
        """Mask the forms that begin before the limit; what is left begins there, or after them."""
        out: list[bytes] = []
        done = 0
        for start, end in self._found(data):
            if start >= limit:
                break
            out += (data[done:start], MASK)
            done = end
        if done < limit:
            out.append(data[done:limit])
            done = limit
        return b"".join(out), data[done:]

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where forms stand, from left to right, not overlapping, the longest where several do."""
        # Mostly there is none, and looking for each is as fast as memory.
        places = {form: place for form in self.forms if (place := data.find(form)) >= 0}
        while places:
            # Of equal places the first in the order of `forms` wins.
            form = min(places, key=places.__getitem__)
            start, end = places[form], places[form] + len(form)
            yield start, end
            for other, place in list(places.items()):
                if place < end:
                    again = data.find(other, end)
                    if again >= 0:
                        places[other] = again
                    else:
                        del places[other]

    def _first_open(self, data: bytes) -> int:
        """The first place from which the data, to its end, is the beginning of a longer form."""
        first = len(data)
        near_end = max(len(data) - self._longest + 1, 0)
        tail = data[near_end:]
        for form in self.forms:
            # From its first possible place: before that the whole form would fit.
            place = _next_start(tail, form, max(len(tail) - len(form) + 1, 0))
            while 0 <= place < first - near_end:
                if form.startswith(tail[place:]):
                    first = near_end + place
                    break
                place = _next_start(tail, form, place + 1)
        return first


def _next_start(tail: bytes, form: bytes, begin: int) -> int:
    """The next place where the form may begin: three bytes of it, or fewer at the very end."""
    place = tail.find(form[:3], begin)
    return place if place >= 0 else tail.find(form[:1], max(begin, len(tail) - 2))


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
    for escape in (json_text, _json_text_in_utf8):
        once = escape(text)
        for form in (once, once.replace("/", "\\/"), escape(once)):
            forms.add(form.encode("utf-8", "replace"))
    return forms


def _json_text_in_utf8(text: str) -> str:
    return "".join([c if c > "~" else json_text(c) for c in text])


def _in_url(value: bytes) -> set[bytes]:
    forms: set[bytes] = set()
    for escape in (b"%%%02X", b"%%%02x"):
        strict = b"".join(b"%c" % b if b in _UNRESERVED else escape % b for b in value)
        path = strict.replace(escape % ord("/"), b"/")
        forms |= {strict, path, strict.replace(b"%20", b"+")}
    return forms


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
    quoted = b"".join(b"\\%c" % b if b in _SPECIAL_IN_DOUBLE_QUOTES else b"%c" % b for b in value)
    bare = b"".join(b"%c" % b if b in _BARE_IN_SHELL else b"\\%c" % b for b in value)
    return {
        value.replace(b"'", b"'\"'\"'"),
        value.replace(b"'", b"'\\''"),
        quoted,
        bare,
        c_style,
    }
