"""Secrets in a stream of bytes become `***`, in every spelling in which programs print them.

A secret is looked for raw and JSON-escaped, URL-encoded, HTML-escaped, in base64 (at all three
alignments, and wrapped), in hex, quoted for a shell; a secret of several lines also line by line,
and one with white space around it also without. Where secrets overlap, all that they cover is
masked. What is masked does not depend on how the stream was cut into reads: bytes that may be the
beginning of a secret are held back until it is clear.
"""

from __future__ import annotations

import binascii

from orchestrate.execute.flat_json import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MASK = b"***"
# A shorter value would match by accident all over the output, and is not a secret either.
SHORTEST = 4
_SHORTEST_LINE = 6
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_BARE_IN_SHELL = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
)
_SPECIAL_IN_DOUBLE_QUOTES = frozenset(b'$`"\\')
_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
# Escapers agree about those three, and differ about the rest.
_HTML_CUSTOMS: tuple[dict[str, str], ...] = (
    {},
    {'"': "&quot;", "'": "&#x27;"},
    {'"': "&quot;", "'": "&#39;"},
    {'"': "&quot;", "'": "&apos;"},
    {'"': "&#34;", "'": "&#39;", "+": "&#43;"},
    {'"': "&quot;", "'": "&#39;", "/": "&#x2F;", "`": "&#x60;", "=": "&#x3D;"},
)
# How a form begins: as many bytes as are looked for at once.
_START = 3
# How much is compared at once where a form repeats itself.
_STRETCH = 4096


class Mask:
    """Knows the secrets; masks whole texts. `Stream` does the same for a text that arrives."""

    def __init__(self, secrets: Iterable[str | bytes]) -> None:
        self.forms: set[bytes] = set()
        families: list[tuple[bytes, list[bytes]]] = []
        for value in secrets:
            new = forms_of(_bytes(value)) - self.forms
            self.forms |= new
            families += _families(new)
        # The shortest first: what is longer than a text need not be looked for in it.
        self.families = sorted(families, key=lambda family: len(family[0]))
        self._longest = max(map(len, self.forms), default=0)
        self._shortest = min(map(len, self.forms), default=0)
        self._starts: dict[bytes, list[bytes]] = {}
        for form in self.forms:
            self._starts.setdefault(form[:_START], []).append(form)
        self._shorter_starts = {form[:n] for form in self.forms for n in range(1, _START)}

    def apply(self, data: bytes) -> bytes:
        """The data with all secrets masked."""
        return self.cut_at(len(data), data, 0)[0]

    def cut(self, data: bytes, covered: int) -> tuple[bytes, bytes, int]:
        """`cut_at` the first place where a secret may have begun that ends in bytes to come."""
        return self.cut_at(self._first_open(data), data, covered)

    def cut_at(self, limit: int, data: bytes, covered: int) -> tuple[bytes, bytes, int]:
        """What is to be passed on of the data before the limit, and the rest with its `covered`.

        So many bytes at the beginning of the data are `covered` by a mask that was passed on
        already: they belong to a secret that began before.
        """
        out: list[bytes] = []
        end = covered
        for start, stop in self._found(data):
            if start >= limit:
                break
            if start >= end:
                out += (data[end:start], MASK)
            end = max(end, stop)
        if end < limit:
            out.append(data[end:limit])
        return b"".join(out), data[limit:], max(end - limit, 0)

    def _found(self, data: bytes) -> list[tuple[int, int]]:
        """Where forms stand, from left to right; they may overlap."""
        size = len(data)
        if size < self._shortest:
            return []
        # Mostly there is none, and looking for each is as fast as memory.
        found: list[tuple[int, int]] = []
        for inner, family in self.families:
            if len(inner) > size:
                break
            if inner in data:
                found += (place for form in family for place in _places(form, data))
        found.sort()
        return found

    def _first_open(self, data: bytes) -> int:
        """The first place from which the data, to its end, is the beginning of a longer form."""
        near_end = max(len(data) - self._longest + 1, 0)
        tail = data[near_end:]
        size = first = len(tail)
        for start, forms in self._starts.items():
            place = tail.find(start)
            while 0 <= place < first:
                rest = tail[place:]
                if any(len(form) > size - place and form.startswith(rest) for form in forms):
                    first = place
                    break
                place = tail.find(start, place + 1)
        for length in range(_START - 1, 0, -1):
            if size - first < length <= size and tail[-length:] in self._shorter_starts:
                first = size - length
                break
        return near_end + first


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _families(forms: Iterable[bytes]) -> list[tuple[bytes, list[bytes]]]:
    """Forms by the shortest one inside them: where that is not, none of its family is."""
    families: dict[bytes, list[bytes]] = {}
    for form in sorted(forms, key=lambda form: (len(form), form)):
        inner = next((inner for inner in families if inner in form), form)
        families.setdefault(inner, []).append(form)
    return list(families.items())


def _places(form: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """Where a form stands; where it follows itself within itself, all of that is one place.

    Data can be made so that it does so at every byte (`aaaa…`): each byte is looked at once.
    """
    place = data.find(form)
    while place >= 0:
        end = place + len(form)
        following = data.find(form, place + 1)
        if place < following < end:
            again = form[place - following :]
            for more in (again * (_STRETCH // len(again)), again):
                while more and data.startswith(more, end):
                    end += len(more)
            following = data.find(form, end - len(form) + 1)
        yield place, end
        place = following


class Stream:
    """Masks data that arrives in pieces; holds back at most one byte less than the longest form."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""
        self._covered = 0

    def feed(self, data: bytes) -> bytes:
        if not self._mask.forms:
            return data
        out, self._held, self._covered = self._mask.cut(self._held + data, self._covered)
        return out

    def finish(self) -> bytes:
        held, covered = self._held, self._covered
        self._held, self._covered = b"", 0
        return self._mask.cut_at(len(held), held, covered)[0]


def is_too_short(secret: str | bytes) -> bool:
    """Is the value, without white space around it, not masked because it is too short?"""
    return len(_bytes(secret).strip().decode("utf-8", "surrogateescape")) < SHORTEST


def forms_of(secret: bytes) -> set[bytes]:
    """All spellings of a secret; none of one that is too short.

    White space around it is left standing where it is seen as such, so that lines stay lines.
    """
    if is_too_short(secret):
        return set()
    value = secret.strip()
    forms = {value} | _encoded(value)
    if value != secret:
        forms |= _in_digits(secret)
    lines = {line.strip() for line in value.splitlines()}
    if len(lines) > 1:
        for line in lines:
            if len(line) >= _SHORTEST_LINE:
                forms |= {line} | _encoded(line)
    return forms


def _encoded(value: bytes) -> set[bytes]:
    texts = _in_json(value) | _in_url(value) | _in_shell(value) | _in_html(value)
    return texts | _in_digits(value)


def _in_digits(value: bytes) -> set[bytes]:
    digits = binascii.hexlify(value)
    return {digits, digits.upper()} | _in_base64(value)


def _in_json(value: bytes) -> set[bytes]:
    """As the inside of a JSON string, and of one inside another, as agents' event streams have."""
    forms: set[bytes] = set()
    text = value.decode("utf-8", "replace")
    for escape in (json_text, _json_text_in_utf8):
        once = escape(text)
        # As inside a page, where a script must not end early.
        careful = once.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
        for form in (once, once.replace("/", "\\/"), escape(once), careful):
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


def _in_html(value: bytes) -> set[bytes]:
    text = value.decode("utf-8", "replace")
    forms: set[bytes] = set()
    for custom in _HTML_CUSTOMS:
        escaped = text.translate(_HTML | {ord(c): entity for c, entity in custom.items()})
        forms |= {escaped.encode("utf-8", "replace"), escaped.encode("ascii", "xmlcharrefreplace")}
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
