"""1: one type names frames, steps, attempts and logs; it reads back what it writes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.execute.keeper.facts import ATTEMPT_ID
from orchestrate.state.address import Address, Called, FrameKey, Item

_PLAIN = st.sampled_from(["a", "A", "b", "0", "3", "restart-1", "two words", "Loop", "s" * 101])
_ANY = st.text(min_size=1, max_size=12) | st.text("aA%/[]():@.*+~1 02-F", min_size=1, max_size=9)
_NAMES = _PLAIN | _ANY
_NUMBERS = st.integers(1, 4) | st.integers(1, 999_999_999)
_ITEMS = st.builds(Item, _NAMES, st.integers(0, 3) | st.integers(0, 999_999_999), _NUMBERS)
_CALLS = st.builds(Called, _NAMES, _NUMBERS, _NUMBERS)
_FRAMES = st.builds(
    FrameKey,
    st.integers(0, 3),
    st.lists(_ITEMS | _CALLS, max_size=3).map(tuple),
)
_ATTEMPTS = st.builds(Address, _FRAMES, _NAMES, _NUMBERS, _NUMBERS)
_ADDRESSES = (
    _ATTEMPTS | st.builds(Address, _FRAMES, _NAMES) | st.builds(Address, _FRAMES, _NAMES, _NUMBERS)
)
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9 ._+@~-]{0,199}\Z")


@given(_FRAMES)
def test_truth_01_frame_is_read_back_from_its_key(frame: FrameKey) -> None:
    assert FrameKey.parse(frame.text) == frame


@given(_ADDRESSES)
def test_truth_01_address_is_read_back_from_every_spelling(address: Address) -> None:
    assert Address.parse(address.text) == address
    assert Address.parse(address.shown) == address


@given(_ATTEMPTS, _ATTEMPTS)
def test_truth_01_different_attempts_share_no_id_and_no_file(one: Address, other: Address) -> None:
    """Nor where a file system does not tell upper from lower case."""
    names = _names(one) | _names(other)
    spellings = {name: {n for n in names if n.casefold() == name.casefold()} for name in names}
    twins = frozenset(name for name, same in spellings.items() if len(same) > 1)
    files = [address.log_name(twins).casefold() for address in (one, other)]
    assert (files[0] == files[1]) == (one == other)
    assert ATTEMPT_ID.match(one.attempt_id)
    assert (one.attempt_id == other.attempt_id) == (one == other)
    assert (one.shown == other.shown) == (one == other)


@given(_ATTEMPTS, st.integers(0, 30))
def test_truth_01_file_names_are_safe_and_short(address: Address, depth: int) -> None:
    deep = FrameKey(1, (Called("n" * 60, 2, 3),) * depth + address.frame.parts)
    name = Address(deep, address.name, address.visit, address.attempt).log_name()
    assert _SAFE.match(name), name
    assert len(f"{name}.answer.txt".encode()) < 200


def _names(address: Address) -> set[str]:
    parts = address.frame.parts
    return {address.name} | {p.loop if isinstance(p, Item) else p.step for p in parts}


@pytest.mark.parametrize(
    ("text", "shown", "log"),
    [
        ("Step:1.1", "Step:1.1", "Step"),
        ("Step:1.2", "Step:1.2", "Step@2"),
        ("Step:2.3", "Step:2.3", "Step+2@3"),
        ("restart-1/work:1.1", "restart-1/work:1.1", "restart-1.work"),
        ("Loop[3]/Step:1.1", "Loop[3]/Step:1.1", "Loop.3.Step"),
        ("Loop:2[3]/Step:1.1", "Loop:2[3]/Step:1.1", "Loop+2.3.Step"),
        (
            "Loop:2[3]/Call@2()/Step:1.1",
            "Loop:2[3]/Call@2/Step:1.1",
            "Loop+2.3.Call@2.Step",
        ),
        ("look[0]/look:1.1", "look[0]:1.1", "look.0.look"),
        ("audit()/audit:1.1", "audit/audit:1.1", "audit.audit"),
        ("each[0]/each@2()/one:1.1", "each[0]@2()/one:1.1", "each.0.each@2.one"),
        ("restart-1()/work:1.1", "restart-1()/work:1.1", "restart-1~"),
        ("approve:Phase 1: fix:1.1", "approve:Phase 1: fix:1.1", "approve-Phase-1-fix~"),
    ],
)
def test_truth_01_spellings(text: str, shown: str, log: str) -> None:
    address = Address.parse(text)
    assert address.text == text
    assert Address.parse(address.attempt_id) == address
    assert address.shown == shown
    assert Address.parse(shown) == address
    assert address.log_name().startswith(log) if "~" in log else address.log_name() == log


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a//b", "a[0", "a]b", "a()", "(x)/b", "[1]"])
def test_truth_01_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a step|neither|begins"):
        Address.parse(text)


@pytest.mark.parametrize(
    ("asked", "found", "is_meant"),
    [
        ("work", "restart-1/work:1.1", True),
        ("restart-1/work", "restart-1/work:1.1", True),
        ("restart-1/work", "work:1.1", False),
        ("Loop[3]/Step", "Loop:2[3]/Step:1.1", True),
        ("Loop[*]/Step", "Loop:2[3]/Step:1.1", True),
        ("Loop:2[3]/Step", "Loop[3]/Step:1.1", False),
        ("Loop[2]/Step", "Loop[3]/Step:1.1", False),
        ("Step:2", "Step:2.7", True),
        ("Step:2.6", "Step:2.7", False),
        ("work:1.1", "restart-1/work:1.1", False),
        ("Loop[3]/Step:1.1", "Loop:2[3]/Step:1.1", False),
        ("Loop[*]/Step:1.1", "Loop[3]/Step:1.1", True),
        ("call/one", "call@2()/one:1.1", True),
        ("call()/one", "call@2()/one:1.1", True),
        ("one", "call()/one:1.1", False),
    ],
)
def test_truth_01_what_is_left_open_may_be_anything(asked: str, found: str, is_meant: bool) -> None:
    assert Address.parse(asked).covers(Address.parse(found)) is is_meant
