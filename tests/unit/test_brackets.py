"""Open brackets are found from the text alone, and both parsers' complaints lead to them."""

from __future__ import annotations

import pytest

from orchestrate.source import yaml
from orchestrate.source.brackets import balance, depth_at_line, open_bracket, open_quote
from orchestrate.source.invisible import at_the_edge, in_the_way
from orchestrate.source.reader import ReadFault


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('a: ["]", {', 2),
        ("a: [']', x]", 0),
        ("it: don't [ that's", 1),
        ("a: [ # and [", 1),
        ("a#[", 1),
        ('["\\"]", ', 1),
    ],
)
def test_balance(line: str, expected: int) -> None:
    assert balance(line) == expected


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("a: [\n", 1),
        ("a: [x,\n  {b: 1,\n", 2),
        ("a: [x, # why\n\n", 1),
        ("a: [{b: 1\n  },\n", 1),
        ("a: [x]\n", 0),
        ("    a: |\n      one,\n      two [\n    b: some,\n", 0),
    ],
)
def test_depth_at_line(above: str, expected: int) -> None:
    text = "top: 1\n" + above + "    last: 12\n"
    assert depth_at_line(text, text.index("    last")) == expected


def test_a_document_in_brackets_is_open_to_its_end() -> None:
    text = "# a comment\n{a: 1\n,b: 2\n, c: 3}"
    assert depth_at_line(text, text.index(", c")) > 0


def test_open_bracket_passes_over_closed_ones() -> None:
    text = 'a: [b, {c: "}"}, [\n  d],\n'
    assert open_bracket(text, len(text)) == 3
    assert open_bracket("a: [b]", 6) == -1


@pytest.mark.parametrize(
    ("line", "expected"),
    [('["a", "b]', 6), ('["a", "b"]', -1), ("['a]", 1), ("don't", -1), ('[a] # "', -1)],
)
def test_open_quote(line: str, expected: int) -> None:
    assert open_quote(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [("  \u00a0a: b", 2), ("  a:\u00a0b", 4), ("  -\u00a0a: b", 3), ("  a: b\u00a0c: d", -1)],
)
def test_in_the_way(line: str, expected: int) -> None:
    assert in_the_way(line) == expected


def test_at_the_edge() -> None:
    assert at_the_edge("5\u202f") == "\u202f"
    assert at_the_edge("nextStep:\u00a0a") == "\u00a0"
    assert at_the_edge("two\u00a0words") == ""


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n  b: [", (1, 5)),
        ("a:\n  b: [\n\n# end\n", (1, 5)),
        ('a:\n  b: ["x",', (1, 5)),
        ("a:\n  b: {c: ", (1, 5)),
        ("{", (0, 0)),
        ("a:\n  - b: [\n  - c: d\n", (1, 7)),
        ('a:\n  b: [x, "y]\n  c: ["z"]\n', (1, 9)),
        ("a:\n  b: [x, ${y}]\n", (1, 9)),
    ],
)
def test_both_parsers_lead_to_the_same_place(
    text: str, place: tuple[int, int], pure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pure:
        monkeypatch.setattr(yaml, "_event_reader", yaml.pure_event_reader)
    reported: list[ReadFault] = []
    with pytest.raises(ReadFault) as caught:
        yaml.parse_yaml(text, 0, reported.append)
    assert not reported
    assert (caught.value.line, caught.value.column) == place
