"""Names that are kept say what is worked out anew."""

from __future__ import annotations

import itertools

import pytest

from orchestrate.state.address import FrameKey, address_of
from orchestrate.state.names import item_key, names_of

FRAMES = (
    FrameKey(),
    FrameKey(restart=2),
    FrameKey(edit=3),
    FrameKey().item("Loop", 4, 1),
    FrameKey(1).item("Outer", 0, 2).call("Call", 3, 2).item("In ner", 7, 1),
)
STEPS = ("Step", "a b", "3", "restart-1", "x/y", "ä" * 120, "DO")
TWINS = frozenset({"DO", "do"})


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.text or "main")
def test_an_attempt_is_called_as_its_address_says(frame: FrameKey) -> None:
    for step, visit, attempt, twins in itertools.product(STEPS, (1, 2), (1, 3), ((), TWINS)):
        address = address_of(frame.text, step, visit, attempt)
        names = names_of(frame.text, step, visit, attempt, frozenset(twins))
        assert names.text == address.text
        assert names.attempt_id == address.attempt_id
        assert names.log_name == address.log_name(frozenset(twins))
        is_plain = names.log_name == address.log_name()
        assert names.own_log == (None if is_plain else names.log_name)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame.text or "main")
@pytest.mark.parametrize("loop", ["Loop", "a b", "x[0]"])
def test_the_key_of_an_item_is_that_of_its_frame(frame: FrameKey, loop: str) -> None:
    for index, visit in itertools.product((0, 1, 12), (1, 2)):
        key = item_key(frame.text, loop, index, visit)
        assert key == frame.item(loop, index, visit).text
        assert FrameKey.parse(key) == frame.item(loop, index, visit)
