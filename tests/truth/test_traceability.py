"""Every number of the issue "Nothing but the truth" has a test of its name."""

from __future__ import annotations

import re
from pathlib import Path

_TEST = re.compile(r"^(?:    )?def test_truth_(\d\d)_\w+", re.MULTILINE)
NUMBERS = range(1, 34)


def test_every_number_has_a_test() -> None:
    owned: dict[int, int] = {}
    for path in Path(__file__).parent.glob("test_*.py"):
        for number in _TEST.findall(path.read_text("utf-8")):
            owned[int(number)] = owned.get(int(number), 0) + 1
    assert sorted(owned) == list(NUMBERS)


def test_every_number_says_what_was_untrue() -> None:
    """The promises lead to the list, and the list has a line for each."""
    docs = Path(__file__).parents[2] / "docs"
    page = "testing-the-promises.md"
    promises = (docs / "explanation" / "promises.md").read_text("utf-8")
    assert f"(../contributing/{page}#what-was-untrue)" in promises
    listed = (docs / "contributing" / page).read_text("utf-8").split("## What was untrue")[1]
    numbers = re.findall(r"^\| (\d+) \|", listed, re.MULTILINE)
    assert [int(number) for number in numbers] == list(NUMBERS)
