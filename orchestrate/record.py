"""Frozen, slotted data classes that cost next to nothing to define.

`@record` gives what `@dataclass(frozen=True, slots=True)` gives: fields from annotations, defaults,
`==`, `hash`, `repr`, positional `match`. But a dataclass compiles half a dozen methods when its
module is imported, and a hundred of those were most of the time that `orchestrate validate` took
(docs/adr/0008). Here the methods are shared, and `__init__` is compiled only for a class of which
many values are made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, TypeVar, dataclass_transform

_MISSING: Any = object()
_T = TypeVar("_T")


class FrozenRecordError(AttributeError):
    """A frozen record was to be changed; make a changed copy with `replace`."""


class _Field:
    """A field that is not simply given or defaulted."""

    __slots__ = ("factory", "init")

    def __init__(self, factory: Callable[[], Any], init: bool) -> None:
        self.factory = factory
        self.init = init


def field(*, default_factory: Callable[[], Any] = lambda: _MISSING, init: bool = True) -> Any:
    """A field with a fresh default for each value, or (`init=False`) one that is set later."""
    return _Field(default_factory, init)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[_T]) -> type[_T]:
    """The class as frozen, hashable, slotted data."""
    return _rebuild(cls, frozen=True)


@dataclass_transform(field_specifiers=(field,))
def mutable_record(cls: type[_T]) -> type[_T]:
    """The class as slotted data that may change: work in progress, never part of a plan."""
    return _rebuild(cls, frozen=False)


def field_names(value: object) -> tuple[str, ...]:
    """The names of a record's fields, in order; none for anything else."""
    return getattr(type(value), "__match_args__", ()) if is_record(value) else ()


def is_record(value: object) -> bool:
    return hasattr(type(value), "__record_defaults__")


def defaults_of(kind: type[Any]) -> dict[str, Any]:
    """What each field of a record is where it is not given; nothing equals one that must be."""
    return {
        name: default.factory() if isinstance(default, _Field) else default
        for name, default in kind.__record_defaults__.items()
    }


def replace(value: _T, /, **changes: Any) -> _T:
    """A copy of a record with some fields changed."""
    kept = {name: getattr(value, name) for name in field_names(value) if name not in changes}
    return type(value)(**kept, **changes)


def many(cls: type[_T], values: Sequence[Any]) -> tuple[_T, ...]:
    """Records of a class with one field, one a value: no Python code runs for each of thousands."""
    (name,) = cls.__match_args__  # type: ignore[attr-defined]
    made = tuple(map(cls.__new__, repeat(cls, len(values))))
    deque(map(cls.__dict__[name].__set__, made, values), maxlen=0)
    return made


def _rebuild(cls: type[_T], *, frozen: bool) -> type[_T]:
    """Slots can only be given when a class is made, so the class is made again."""
    body = dict(cls.__dict__)
    names = tuple(body.get("__annotations__", ()))
    body["__record_defaults__"] = {name: body.pop(name, _MISSING) for name in names}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    body["__slots__"] = names
    body["__match_args__"] = names
    body["__init__"] = _first_inits
    body.setdefault("__repr__", _repr)
    body.setdefault("__eq__", _equal)
    body["__hash__"] = _hash if frozen else None
    body["__reduce__"] = _reduce
    if frozen:
        body["__setattr__"] = _refuse
        body["__delattr__"] = _refuse
    remade: Any = type(cls.__name__, cls.__bases__, body)
    return remade  # type: ignore[no-any-return]


def _first_inits(self: Any, *values: Any, **named: Any) -> None:
    """The `__init__` of a class until it has proved worth compiling one."""
    cls = type(self)
    uses = _USES[cls] = _USES.get(cls, 0) + 1
    if uses > _WORTH_COMPILING or not _assign(self, values, named):
        cls.__init__ = _compile_init(cls)
        self.__init__(*values, **named)


_USES: dict[type, int] = {}
# Compiling an `__init__` takes as long as this many slow ones, the first one a millisecond more;
# most classes, and all in a small run, are used less.
_WORTH_COMPILING = 60


def _assign(self: Any, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Fill the slots from arguments and defaults; False if they do not fit."""
    fields = [
        (name, default)
        for name, default in self.__record_defaults__.items()
        if type(default) is not _Field or default.init
    ]
    given = {field[0]: value for field, value in zip(fields, values, strict=False)} | named
    if len(given) != len(values) + len(named):
        return False
    for name, default in fields:
        value = given.pop(name, default)
        if value is _MISSING:
            return False
        if type(value) is _Field:
            value = value.factory()
        object.__setattr__(self, name, value)
    if given:
        return False
    if hasattr(self, "__post_init__"):
        self.__post_init__()
    return True


def _compile_init(cls: Any) -> Callable[..., None]:
    """Assign through the slots themselves: that is fast, and also works on frozen records."""
    parameters, lines = [], []
    scope: dict[str, Any] = {"MISSING": _MISSING}
    for index, (name, default) in enumerate(cls.__record_defaults__.items()):
        scope[f"set_{index}"] = cls.__dict__[name].__set__
        scope[f"default_{index}"] = default
        if isinstance(default, _Field):
            scope[f"default_{index}"] = default.factory
            if not default.init:
                continue
            parameters.append(f"{name}=MISSING")
            lines.append(f" if {name} is MISSING: {name} = default_{index}()")
        else:
            parameters.append(name if default is _MISSING else f"{name}=default_{index}")
        lines.append(f" set_{index}(self, {name})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])
    # Only field names of our own classes are in the source; dataclasses does the same.
    exec(compile(source, f"<record {cls.__name__}>", "exec"), scope)
    made: Callable[..., None] = scope["__init__"]
    return made


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__match_args__])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({shown})"


def _equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash((type(self), _values(self)))


def _reduce(self: Any) -> tuple[Any, tuple[Any, ...]]:
    return type(self), _values(self)


def _refuse(self: Any, name: str, *_: Any) -> None:
    message = f"{type(self).__name__}.{name} cannot change: {type(self).__name__} is frozen"
    raise FrozenRecordError(message)
