"""7: whatever agents print, our own work on it takes time in proportion to its size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.failures import failure_of
from orchestrate.agents.parse import events_in, one_line
from orchestrate.app.given import inputs
from orchestrate.app.given.inputs import value_in_call
from orchestrate.diagnostics import Span
from orchestrate.engine.answers import structured
from orchestrate.engine.capture import capture_bytes
from orchestrate.engine.faults import Halted
from orchestrate.engine.outcome import Outcome, read_outcome
from orchestrate.errors import UsageError
from orchestrate.execute.masking import MASK, Mask, Stream
from orchestrate.plan.settings import Input
from orchestrate.plan.visible import visible
from orchestrate.workspace import Workspace

SIZE = 1_000_000
# Of the processor, which others may keep busy; what took a quadratic time would take minutes.
PATIENCE_S = 15.0


def hostile() -> dict[str, str]:
    """Made when it is wanted: it takes 27 MB."""
    spaces = " " * SIZE
    return {
        "a mark, then spaces": f"`{spaces}x",
        "a fence, spaces, a mark": f"```{spaces}`",
        "marks, then spaces": "`" * (SIZE // 2) + " " * (SIZE // 2) + "`",
        "lines of a fence and spaces": ("```" + " " * 100_000 + "`\n") * 10,
        "lines of a mark and spaces": ("`" + " " * 100_000 + "`\n") * 10,
        "fences": "```\n" * (SIZE // 4),
        "fences that never close": "```json\n" + "a```b\n" * (SIZE // 6),
        "openings of objects": "{\n" * (SIZE // 2),
        "openings on one line": '{"a":' * (SIZE // 5),
        "brackets": "[" * SIZE,
        "digits": "1" * SIZE,
        "a long fraction": "0." + "1" * SIZE,
        "a status, then spaces": f"status{spaces}",
        "times to come back": "retry after " + "1 " * (SIZE // 2),
        "escapes": "\x1b[" * (SIZE // 2),
        "an escape without end": "\x1b[" + "0" * SIZE,
        "halves of characters": "\ud800" * SIZE,
        "changes of direction": "é\u202e" * (SIZE // 2),
    }


def in_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


WORKS: dict[str, Callable[[str], Any]] = {
    "outcome": lambda text: read_outcome(text, ("done", "other")),
    "answer": structured,
    "json": lambda text: capture_bytes(in_bytes(text), mode="json", exit_code=0),
    "lines": lambda text: capture_bytes(in_bytes(text), mode="lines", exit_code=0),
    "events": lambda text: list(events_in(in_bytes(text))),
    "failure": lambda text: failure_of(text, 1_000_000_000.0),
    "line": one_line,
    "visible": visible,
}


@pytest.mark.parametrize("work", WORKS)
def test_truth_07_our_work_on_hostile_output_ends(work: str) -> None:
    for name, text in hostile().items():
        began = time.process_time()
        WORKS[work](text)
        took = time.process_time() - began
        assert took < PATIENCE_S, f"{name}: {took:.1f} s"


@pytest.mark.parametrize(
    ("secret", "word", "end"),
    [
        ("a" * 20, "a", ""),
        ("a" * 5000, "a", ""),
        ("a" * 4999 + "b", "a", ""),
        ("ab" * 500, "ab", ""),
        ("aba" * 9 + "ab", "aba", ""),
        ("`" * 20, "`", "x"),
    ],
)
def test_truth_07_masking_hostile_output_ends(secret: str, word: str, end: str) -> None:
    began = time.process_time()
    mask = Mask([secret])
    data = (word * (SIZE // len(word)) + end).encode()
    masked = mask.apply(data)
    stream = Stream(mask)
    parts = [stream.feed(data[start : start + 65536]) for start in range(0, len(data), 65536)]
    assert b"".join([*parts, stream.finish()]) == masked
    assert secret.encode() not in masked
    assert time.process_time() - began < PATIENCE_S


def test_truth_07_what_follows_itself_within_itself_is_masked_whole() -> None:
    """As before: one place is one mask, and what touches without overlapping is two."""
    mask = Mask(["aabaa"])
    assert mask.apply(b"xaabaabaay") == b"x" + MASK + b"y"
    assert mask.apply(b"aabaabaaabaa-aabaa") == MASK + b"-" + MASK
    assert Mask(["abcd"]).apply(b"abcdabcd") == MASK + MASK


def test_truth_07_fences_are_read_as_before() -> None:
    line = json.dumps({"outcome": "done"})
    for text in (f"```json {line} ```", f"```{line}```", f"{line} ````", f"`````json   {line}"):
        assert read_outcome(text, ("done", "other")) == Outcome("done"), text
    assert structured('words\n```json x\n{"a": 1}\n```\n') == {"a": 1}
    assert structured("  ````JSON\n[1]\n````") == [1]
    assert structured("```js`on\n[1]\n```") == "```js`on\n[1]\n```"


EVIL = Input("x", Span("w.yaml", 1, 1), pattern="^(a+)+$")


def test_truth_07_a_pattern_that_takes_for_ever_obeys_a_signal(tmp_path: Path) -> None:
    """A call hands what an agent said to an input of another file."""
    workspace = Workspace(tmp_path)
    with pytest.raises(Halted):
        value_in_call(EVIL, "a" * 60 + "!", workspace, lambda: True)
    assert value_in_call(EVIL, "aaa", workspace, lambda: False) == "aaa"


def test_truth_07_a_pattern_does_not_outlive_who_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process ends by itself: should we be killed, nobody else would end it."""
    monkeypatch.setattr(inputs, "_MATCH", inputs._MATCH.replace("(5, 6)", "(1, 2)"))
    monkeypatch.setattr(inputs, "_MATCH_S", 600.0)
    with pytest.raises(UsageError, match="could not be held against"):
        value_in_call(EVIL, "a" * 60 + "!", Workspace(tmp_path), lambda: False)
