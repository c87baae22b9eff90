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
