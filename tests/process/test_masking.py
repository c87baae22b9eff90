"""No spelling of a secret passes, wherever the stream was cut."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shlex
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.execute.masking import MASK, Mask, Stream

TRICKY = "p/ä s'w\"o+r$d\\ü%`&"
PEM = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nBKcwggSjAgEAAoIBAQC7\n-----END KEY-----\n"


def spellings(secret: str) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "raw": raw,
        "json": json.dumps({"k": secret}).encode(),
        "json utf-8": json.dumps({"k": secret}, ensure_ascii=False).encode(),
        "json in json": json.dumps({"k": json.dumps([secret])}).encode(),
        "url": urllib.parse.quote(secret, safe="").encode(),
        "url path": urllib.parse.quote(secret).encode(),
        "url form": urllib.parse.urlencode({"k": secret}).encode(),
        "base64": base64.b64encode(raw),
        "base64 url": base64.urlsafe_b64encode(raw),
        "base64 user": base64.b64encode(b"me:" + raw),
        "base64 user 1": base64.b64encode(b"you:" + raw),
        "base64 user 2": base64.b64encode(b"u:" + raw + b"\n"),
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "shell": shlex.quote(secret).encode(),
        "shell, double quotes": b'"' + re.sub(rb'([$`"\\])', rb"\\\1", raw) + b'"',
        "shell, backslashes": re.sub(rb"([^\w@%+=:,./-])", rb"\\\1", raw),
    }


def masked_in_pieces(mask: Mask, *pieces: bytes) -> bytes:
    stream = Stream(mask)
    return b"".join([*map(stream.feed, pieces), stream.finish()])


@pytest.mark.parametrize("secret", [TRICKY, "ghp_0123456789abcdefABCDEF", "kurz", PEM.strip()])
def test_every_spelling_at_every_cut(secret: str) -> None:
    mask = Mask([secret])
    for name, spelling in spellings(secret).items():
        text = b"before " + spelling + b" after"
        whole = mask.apply(text)
        assert MASK in whole, name
        assert secret.encode() not in whole
        step = 1 if len(text) < 300 else 7
        for cut in range(0, len(text) + 1, step):
            assert masked_in_pieces(mask, text[:cut], text[cut:]) == whole, (name, cut)
        assert masked_in_pieces(mask, *(bytes([b]) for b in text)) == whole, name


@pytest.mark.parametrize("name", sorted(spellings("")))
def test_nothing_of_the_secret_is_left(name: str) -> None:
    """What stays around the mask is at most a few characters that two values share."""
    secret = "ghp_0123456789abcdefABCDEF"
    around = len(spellings("")[name]) + 8
    assert len(Mask([secret]).apply(spellings(secret)[name])) <= around + len(MASK)


@pytest.mark.parametrize("secret", ["it's \\a-key", "it's\ntwo lines\there\rand"])
def test_quoted_as_shells_quote_what_is_not_plain(secret: str) -> None:
    escapes = {"\\": r"\\", "'": r"\'", "\n": r"\n", "\t": r"\t", "\r": r"\r"}
    shown = "$'" + "".join(escapes.get(c, c) for c in secret) + "'"
    assert Mask([secret]).apply(shown.encode()) == b"$'***'"
    shown = "'" + secret.replace("'", "'\\''") + "'"
    assert Mask([secret]).apply(shown.encode()) == b"'***'"


def test_lines_of_a_secret_are_secrets() -> None:
    mask = Mask([PEM])
    shown = b"".join(b"> " + line.encode() + b"\r\n" for line in PEM.splitlines())
    assert mask.apply(shown) == b"> ***\r\n" * 4


@pytest.mark.parametrize("spell", [bytes.hex, lambda line: base64.b64encode(line).decode()])
def test_lines_of_a_secret_are_masked_in_other_spellings(spell: Callable[[bytes], str]) -> None:
    for line in PEM.encode().splitlines():
        assert Mask([PEM]).apply(spell(line).encode()) == MASK


def test_short_lines_of_a_secret_are_no_secrets() -> None:
    mask = Mask(["-six-6\nfive5\n"])
    assert mask.apply(b"-six-6 five5") == b"*** five5"


@pytest.mark.parametrize("length", range(4, 12))
def test_nothing_of_base64_is_left(length: int) -> None:
    secret = ("Zk3~" * 3)[:length].encode()
    for shown in (base64.b64encode(secret), base64.b64encode(secret).rstrip(b"=")):
        assert Mask([secret]).apply(shown) == MASK
    assert Mask([secret[:3]]).apply(base64.b64encode(secret[:3])) != MASK


def test_base64_in_the_middle_of_something_longer_is_masked_exactly() -> None:
    for secret in (b"Zk3~Zk3~Z", b"Zk3~Zk3~Zk", b"Zk3~Zk3~Zk3"):
        shown = base64.b64encode(b"abc" + secret + b"def")
        decided = 4 + len(secret) * 8 // 6
        assert Mask([secret]).apply(shown) == shown[:4] + MASK + shown[decided:]


@pytest.mark.parametrize("width", [64, 76])
def test_the_last_line_of_wrapped_base64_is_masked_from_8_characters_on(width: int) -> None:
    secret = bytes(range(1, 255))
    for rest, is_masked in ((4, False), (8, True), (12, True)):
        value = (secret * 2)[: (width + rest) * 3 // 4]
        shown = base64.b64encode(value)
        assert len(shown) == width + rest
        assert (Mask([value]).apply(shown[width:]) == MASK) is is_masked


def test_wrapped_base64() -> None:
    secret = "x9" * 90
    shown = base64.encodebytes(secret.encode())
    assert set(Mask([secret]).apply(shown)) <= set(b"*\n")


def test_the_longest_of_two_secrets_wins_at_every_cut() -> None:
    mask = Mask(["token", "token-and-more"])
    text = b"token-and-mor token-and-more tokentoken"
    for cut in range(len(text) + 1):
        assert masked_in_pieces(mask, text[:cut], text[cut:]) == b"***-and-mor *** ******"


def test_only_what_may_be_a_secret_is_held_back() -> None:
    stream = Stream(Mask(["hunter2-secret"]))
    assert stream.feed(b"a prompt> ") == b"a prompt> "
    assert stream.feed(b"say hunter") == b"say "
    assert stream.feed(b" #") == b"hunter #"
    assert stream.feed(b"a whole hunter2-secret") == b"a whole ***"


def test_without_secrets_bytes_pass_untouched() -> None:
    every = bytes(range(256)) * 3
    assert masked_in_pieces(Mask([]), every[:100], every[100:]) == every
    assert Mask([""]).apply(every) == every


def test_secrets_that_are_no_text() -> None:
    assert Mask(["\udcff\udcfeabc"]).apply(b"x\xff\xfeabcx") == b"x***x"


@pytest.mark.parametrize(
    "secrets", [["aaab", "aabb"], ["abab", "baaa"], ["aaab", "bbbb"], ["aabaac", "baab"]]
)
def test_secrets_that_begin_like_each_other_and_like_themselves(secrets: list[str]) -> None:
    """Every text of two letters, behind so much else that the search may not begin at its start."""
    mask = Mask(secrets)
    before = b"." * 60
    for letters in itertools.product(b"ab", repeat=9):
        text = before + bytes(letters) + b"c"
        whole = mask.apply(text)
        for cut in range(len(before), len(text)):
            assert masked_in_pieces(mask, text[:cut], text[cut:]) == whole, (letters, cut)


@given(
    st.lists(st.text("ab\n/", min_size=1, max_size=9), max_size=3),
    st.lists(st.binary(max_size=9) | st.sampled_from([b"ab", b"ba", b"a", b"\n", b"YWJ"])),
)
def test_cuts_never_matter(secrets: list[str], pieces: list[bytes]) -> None:
    mask = Mask(secrets)
    assert masked_in_pieces(mask, *pieces) == mask.apply(b"".join(pieces))


def test_forms_are_few() -> None:
    """Each family of forms costs a search in every chunk of output."""
    assert len(Mask([TRICKY]).families) < 40
    assert len(Mask(["ghp_0123456789abcdefABCDEF"]).families) < 8
