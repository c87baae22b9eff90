"""Records behave like frozen, slotted dataclasses, also before `__init__` is compiled."""

from __future__ import annotations

import copy
import pickle

import pytest

from orchestrate.record import (
    FrozenRecordError,
    field,
    field_names,
    is_record,
    mutable_record,
    record,
    replace,
)


@record
class Point:
    x: int
    y: int = 2
    tags: tuple[str, ...] = ()


@record
class Other:
    x: int
    y: int = 2
    tags: tuple[str, ...] = ()


@mutable_record
class Bag:
    name: str
    items: list[int] = field(default_factory=list)
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.items)


@pytest.mark.parametrize("times", [1, 100], ids=["uncompiled", "compiled"])
def test_construction(times: int) -> None:
    @record
    class Fresh:
        a: int
        b: int = 5
        c: list[int] = field(default_factory=list)

    values = [Fresh(1), Fresh(1, 5), Fresh(a=1), Fresh(b=5, a=1), Fresh(1, c=[])] * times
    assert all(value == Fresh(1, 5, []) for value in values)
    assert values[-1].c is not values[-2].c
    with pytest.raises(TypeError):
        Fresh()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Fresh(1, 2, [], 4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Fresh(1, a=2)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Fresh(1, d=2)  # type: ignore[call-arg]


def test_equality_and_hash_know_the_class() -> None:
    assert Point(1) == Point(1, 2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert Point(1) != Point(2)
    other: object = Other(1)
    assert Point(1) != other
    assert len({Point(1), Other(1), Point(1)}) == 2


def test_frozen_and_slotted() -> None:
    point = Point(1)
    with pytest.raises(FrozenRecordError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(FrozenRecordError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 3  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_repr_match_fields_and_replace() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, tags=())"
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
    assert field_names(Point(1)) == ("x", "y", "tags")
    assert is_record(Point(1))
    assert not is_record((1, 2))
    assert replace(Point(1), y=9) == Point(1, 9)
    with pytest.raises(TypeError):
        replace(Point(1), z=9)


def test_copies() -> None:
    assert copy.copy(Point(1)) == Point(1)
    assert copy.deepcopy(Point(1, tags=("a",))) == Point(1, tags=("a",))
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)


def test_mutable_records_change_and_have_no_hash() -> None:
    bag = Bag("a", [1, 2])
    assert bag.total == 3
    bag.items.append(4)
    bag.name = "b"
    assert bag == bag  # noqa: PLR0124
    assert Bag("x").items is not Bag("x").items
    with pytest.raises(TypeError):
        hash(bag)
