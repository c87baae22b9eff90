"""Frozen records of many optional fields that keep only those they were given, in that order.

A step's result may have some forty fields and has a dozen. As JSON it shows these alone, in the
order in which they became known; fields that another version has written stay in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from orchestrate.record import FrozenRecordError

_T = TypeVar("_T", bound="SparseRecord")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class SparseRecord:
    """The base of such records. None stands for "not given", except in the fields of `NULLABLE`.

    Each annotated name of a subclass is a field with a default, read as an attribute. `INNER` says
    how the fields are read from JSON that are records themselves, or tuples of such.
    """

    __slots__ = ("_given",)
    _given: ClassVar[dict[str, Any]]  # of each record: dataclass_transform takes others for fields
    NULLABLE: ClassVar[frozenset[str]] = frozenset()
    INNER: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    FIELDS: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
        cls.FIELDS = frozenset(own)
        for name in own:
            setattr(cls, name, _reader(name, cls.__dict__[name]))

    def __init__(self, **given: Any) -> None:
        if not self.FIELDS.issuperset(given):
            raise _unknown(type(self), given)
        if None in given.values():
            nullable = self.NULLABLE
            given = {k: v for k, v in given.items() if v is not None or k in nullable}
        _SET(self, given)

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        """The record again; the JSON is not to be changed afterwards."""
        if not isinstance(written, dict):
            raise TypeError(f"{cls.__name__} is not a JSON object")
        inner = {name: read(written[name]) for name, read in cls.INNER.items() if name in written}
        return _made(cls, {**written, **inner} if inner else written)

    def to_json(self) -> dict[str, Any]:
        """What is written down; not to be changed, for it may be the record's own."""
        given: dict[str, Any] = self._given
        if self.INNER.keys().isdisjoint(given):
            return given
        plain = {name: _plain(given[name]) for name in self.INNER if name in given}
        return {**given, **plain}

    def has(self, name: str) -> bool:
        """Was a field given? Needed only where its default, or null, says something else."""
        return name in self._given

    def __or__(self, more: Self) -> Self:
        """Both: what `more` was given counts, and what is new in it comes last."""
        if not more._given or not self._given:
            return self if self._given else more
        return _made(type(self), {**self._given, **more._given})

    def plus(self, **more: Any) -> Self:
        """With fields that may be None for "not given", as in `self | Record(**more)`."""
        if not self.FIELDS.issuperset(more):
            raise _unknown(type(self), more)
        given = {name: value for name, value in more.items() if value is not None}
        return _made(type(self), {**self._given, **given}) if given else self

    def without(self, *names: str) -> Self:
        return _made(type(self), {k: v for k, v in self._given.items() if k not in names})

    def only(self, *names: str) -> Self:
        """Some of the fields, in the order of the names."""
        return _made(type(self), {k: self._given[k] for k in names if k in self._given})

    def __bool__(self) -> bool:
        return bool(self._given)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._given == self._given

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._given.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self._given)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenRecordError(f"{type(self).__name__}.{name} cannot change: it is frozen")

    __delattr__ = __setattr__  # type: ignore[assignment]


# Steps make several records each: the slot itself is the fastest way around `__setattr__`.
_SET: Callable[[SparseRecord, dict[str, Any]], None] = SparseRecord.__dict__["_given"].__set__


def _made(cls: type[_T], given: dict[str, Any]) -> _T:
    made = cls.__new__(cls)
    _SET(made, given)
    return made


def _unknown(cls: type[SparseRecord], given: dict[str, Any]) -> TypeError:
    unknown = ", ".join(sorted(given.keys() - cls.FIELDS))
    return TypeError(f"{cls.__name__} has no field {unknown}")


def _reader(name: str, default: Any) -> Any:
    def read(self: SparseRecord) -> Any:
        return self._given.get(name, default)

    return property(read)


def _plain(value: Any) -> Any:
    return [one.to_json() for one in value] if isinstance(value, tuple) else value.to_json()
