"""Output of any shape, size and condition is read without failing and without filling memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.agents import parse as events
from orchestrate.agents.parse import (
    events_in,
    number_at,
    one_line,
    read_events,
    text_at,
    total,
    whole_at,
)

ONE = {"type": "result", "result": "ok"}
TWO = {"type": "init", "session_id": "s"}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", []),
        ("\n\n  \n", []),
        (json.dumps(ONE), [ONE]),
        (json.dumps([TWO, ONE]), [TWO, ONE]),
        (json.dumps(TWO) + "\n" + json.dumps(ONE) + "\n", [TWO, ONE]),
        (json.dumps(ONE, indent=2), [ONE]),
        (json.dumps([TWO, ONE], indent=2), [TWO, ONE]),
        ("Warning: no colours\n" + json.dumps(ONE, indent=2) + "\ntrailing words\n", [ONE]),
        ("Warning: no colours\n" + json.dumps(ONE) + "\n", [ONE]),
        ("\ufeff" + json.dumps(TWO) + "\n" + json.dumps(ONE), [TWO, ONE]),
        (json.dumps(TWO) + "\r\n" + json.dumps(ONE) + "\r\n", [TWO, ONE]),
        ('{"cut": tru\n' + json.dumps(ONE) + "\n", [ONE]),
        ("[1, 2, null]\n" + json.dumps(ONE), [ONE]),
        ("plain words only", []),
        ("[" * 100_000, []),
    ],
)
def test_objects_arrays_and_lines(output: str, expected: list[object], tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    path.write_text(output, "utf-8")
    assert list(read_events(path)) == expected


def test_a_program_that_printed_nothing_has_no_file(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "missing")) == []


def test_bytes_that_are_no_text_do_not_hide_the_rest() -> None:
    output = b'{"type": "x", "text": "\xff\xfe"}\n\x00\x01\x02\n' + json.dumps(ONE).encode()
    assert list(events_in(output)) == [{"type": "x", "text": "\ufffd\ufffd"}, ONE]


def test_a_line_without_end_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(events, "LONGEST_LINE", 1000)
    path = tmp_path / "stdout"
    path.write_text(json.dumps({"x": "y" * 5000}) + "\n" + json.dumps(ONE) + "\n")
    assert list(read_events(path)) == [ONE]


def test_a_large_output_does_not_fill_memory(tmp_path: Path) -> None:
    """300 MB of events and one endless line, in a process that may have 400 MB in all."""
    path = tmp_path / "stdout"
    filler = json.dumps({"type": "tool", "output": "x" * (1 << 20)}).encode() + b"\n"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(filler)
        file.write(b'{"endless": "')
        for _ in range(100):
            file.write(b"y" * (1 << 20))
        file.write(b"\n" + json.dumps(ONE).encode() + b"\n")
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from orchestrate.agents.parse import read_events\n"
        "last = None\n"
        "for last in read_events(Path(sys.argv[1])): pass\n"
        "print(last['type'])\n"
    )
    limit = 400 << 20
    result = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        cwd=Path(__file__).resolve().parents[2],
    )
    assert (result.stdout, result.stderr) == ("result\n", "")


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(output: bytes) -> None:
    assert all(isinstance(event, dict) for event in events_in(output))


def test_values_are_taken_only_if_they_are_what_they_should_be() -> None:
    event = {"a": {"b": [{"c": "text"}]}, "n": 3, "f": 2.5, "t": True, "bad": float("nan")}
    assert text_at(event, "a", "b", 0, "c") == "text"
    assert text_at(event, "a", "b", 1, "c") == ""
    assert text_at(event, "n") == ""
    assert whole_at(event, "n") == 3
    assert whole_at(event, "t") is None
    assert whole_at(event, "f") is None
    assert number_at(event, "n") == 3.0
    assert number_at(event, "bad") is None
    assert total(None, 2, None, 3) == 5
    assert total(None) is None


def test_words_for_a_terminal_have_no_controls() -> None:
    text = "\x1b[31mred\x1b[0m\nand\t\x07 bell \x1b]0;title\x07 \u202eevil\ud800 " + "long " * 100
    shown = one_line(text)
    assert shown.startswith("red and bell")
    assert shown.isprintable()
    assert len(shown) == 200
