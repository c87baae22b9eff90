"""11: nothing of a secret is left: trimmed, overlapping, HTML-escaped, as keys; short ones told."""

from __future__ import annotations

import html
import itertools
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine.answers import structured
from orchestrate.engine.capture import capture_bytes
from orchestrate.engine.masked_keys import keep_apart
from orchestrate.execute.masking import MASK, Mask, Stream
from tests.acceptance.fakes import Stage


def masked_slowly(forms: set[bytes], data: bytes) -> bytes:
    """What `Mask` promises, in the plainest way: every byte that any form covers is masked."""
    places = sorted(
        (start, start + len(form))
        for form in forms
        for start in range(len(data))
        if data.startswith(form, start)
    )
    out, end = b"", 0
    for start, stop in places:
        if start >= end:
            out += data[end:start] + MASK
        end = max(end, stop)
    return out + data[end:]


def masked_in_pieces(mask: Mask, *pieces: bytes) -> bytes:
    stream = Stream(mask)
    return b"".join([*map(stream.feed, pieces), stream.finish()])


def test_truth_11_overlapping_secrets_are_masked_as_one() -> None:
    mask = Mask(["tok_AAAA", "AAAAsuper"])
    text = b"tok_AAAAsuper"
    assert mask.apply(text) == MASK
    for cut in range(len(text) + 1):
        assert masked_in_pieces(mask, text[:cut], text[cut:]) == MASK, cut
    assert masked_in_pieces(mask, *(bytes([b]) for b in text)) == MASK
    # Three in a chain, and one inside another that begins before it.
    assert Mask(["abcdef", "efghij", "ijklmn"]).apply(b".abcdefghijklmn.") == b".***."
    assert Mask(["12345678", "3456"]).apply(b"1234567 12345678") == b"12***7 ***"


def test_truth_11_a_secret_that_overlaps_itself_for_ever_fills_no_memory() -> None:
    stream = Stream(Mask(["aaaa"]))
    out = b"".join(stream.feed(b"a" * 1000) for _ in range(100))
    assert out + stream.finish() == MASK
    assert stream.feed(b"aaa") + stream.finish() == b"aaa"


SECRETS = st.lists(st.text("ab\n &", min_size=4, max_size=9), max_size=4)
PIECES = st.lists(
    st.binary(max_size=9)
    | st.text("ab\n &", max_size=12).map(str.encode)
    | st.sampled_from([b"abab", b"baba", b"aaaa", b"&amp;", b"%0A", b"YWJh", b"6162"])
)


@given(SECRETS, PIECES)
def test_truth_11_the_stream_masks_what_the_oracle_masks(
    secrets: list[str], pieces: list[bytes]
) -> None:
    mask = Mask(secrets)
    data = b"".join(pieces)
    expected = masked_slowly(mask.forms, data)
    assert mask.apply(data) == expected
    assert masked_in_pieces(mask, *pieces) == expected


@given(SECRETS, st.data())
def test_truth_11_secrets_run_into_each_other(secrets: list[str], data: st.DataObject) -> None:
    """Texts that are made of pieces of the forms themselves: the worst there is."""
    mask = Mask(secrets)
    forms = sorted(mask.forms) or [b"ab"]
    piece = st.sampled_from(forms).flatmap(
        lambda form: st.tuples(st.integers(0, len(form)), st.integers(0, len(form))).map(
            lambda ends: form[min(ends) : max(ends)]
        )
    )
    pieces = data.draw(st.lists(piece | st.sampled_from(forms), max_size=12))
    expected = masked_slowly(mask.forms, b"".join(pieces))
    assert masked_in_pieces(mask, *pieces) == expected
    for form in mask.forms:
        assert form not in expected or form in MASK * 99


@pytest.mark.parametrize("secrets", [["aaba", "abab"], ["abaa", "aaaa"], ["abba", "babb", "bbab"]])
def test_truth_11_every_text_of_two_letters_at_every_cut(secrets: list[str]) -> None:
    mask = Mask(secrets)
    for letters in itertools.product(b"ab", repeat=9):
        text = b"." + bytes(letters)
        expected = masked_slowly(mask.forms, text)
        for cut in range(len(text)):
            assert masked_in_pieces(mask, text[:cut], text[cut:]) == expected, (text, cut)


@pytest.mark.parametrize("around", ["{}\n", " {}", "\t{}\r\n", "\n{}\n\n"])
def test_truth_11_white_space_around_a_secret_does_not_hide_it(around: str) -> None:
    mask = Mask([around.format("ghp_x123")])
    assert mask.apply(b"[ghp_x123]") == b"[***]"
    assert mask.apply(b"ghp_x123\nnext line\n") == b"***\nnext line\n", "lines stay lines"
    assert mask.apply(b"6768705f78313233") == MASK


def test_truth_11_a_secret_as_html_is_masked() -> None:
    secret = "a&b<c>d\"e'f/g=h+i`jü"
    pages = [
        html.escape(secret),
        html.escape(secret, quote=False),
        html.escape(secret).replace("&#x27;", "&#39;"),
        html.escape(secret).replace("&#x27;", "&apos;"),
        html.escape(secret).encode("ascii", "xmlcharrefreplace").decode(),
        json.dumps(secret)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e")
        .replace("&", "\\u0026"),
    ]  # fmt: skip
    for page in pages:
        text = f"<p>{page}</p>".encode()
        assert Mask([secret]).apply(text) == b"<p>***</p>", page


@pytest.mark.parametrize("short", ["abc", "äöü", " abc\n", "\n\n\n\n\n", "a"])
def test_truth_11_what_is_too_short_is_not_masked(short: str) -> None:
    text = f"x{short}x{short}x".encode()
    assert Mask([short]).apply(text) == text
    assert masked_in_pieces(Mask([short, "abcd"]), text) == text


def test_truth_11_two_secret_keys_stay_two() -> None:
    printed = Mask(["key-of-alice", "key-of-bob"]).apply(
        b'{"key-of-alice": 1, "key-of-bob": 2, "*** (2)": 3, "in": {"key-of-bob": 4}}'
    )
    expected = {"***": 1, "*** (3)": 2, "*** (2)": 3, "in": {"***": 4}}
    captured = capture_bytes(printed, mode="json", exit_code=0)
    assert captured.output.json == expected
    assert structured(printed.decode()) == expected
    # Without a mask JSON's own rule holds.
    assert keep_apart([("a", 1), ("a", 2)]) == {"a": 2}


def test_truth_11_keys_and_short_secrets_in_a_run(tmp_path: Path) -> None:
    """A step prints its secret trimmed and as keys; a short one is told of, not silently shown."""
    stage = Stage(tmp_path)
    played = stage.play(
        """
        version: "1.1"
        steps:
          - name: Trim
            command: ["sh", "-c", "printf '[%s]' $TOK"]
            secrets: [TOK, PIN]
          - name: Keys
            command: ["sh", "-c", "printf '{\\"%s\\": 1, \\"%s\\": 2}' $TOK $OTHER"]
            secrets: [TOK, OTHER]
            output_capture: json
        """,
        env={"TOK": "ghp_x123\n", "OTHER": "ghp_other", "PIN": "123"},
    )
    assert played.step("Trim")["output"] == "[***]"
    assert played.step("Keys")["json"] == {"***": 1, "*** (2)": 2}
    said = played.result.stderr
    assert said.count("PIN") == 1
    assert "shorter than 4 characters" in said
    assert "TOK" not in said
    assert "PIN" in played.log("orchestrator.log")


def test_truth_11_masking_many_values_stays_quick() -> None:
    """15 keys cost milliseconds to know, and less than a pipe does to look for."""
    secrets = [f"sk-ant-{number:02}-{'x7Qp' * 10}{number:02}" for number in range(15)]
    begin = time.process_time()
    mask = Mask(secrets)
    assert time.process_time() - begin < 0.25
    text = b"some words of a build log, with numbers 1234 and a path/to/file.py\n" * 16_000
    begin = time.process_time()
    pieces = [text[place : place + 65536] for place in range(0, len(text), 65536)]
    assert masked_in_pieces(mask, *pieces) == text
    assert time.process_time() - begin < 1.0, "less than 1 MB/s"
