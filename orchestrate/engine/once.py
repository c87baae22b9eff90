"""A property that is worked out once: `functools.cached_property` without its lock.

Until Python 3.12 that one takes a lock at every first look, and a quick step has half a dozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class once(Generic[_T]):  # noqa: N801 - used as `property` is
    """The value stands in the object's `__dict__` from then on, and hides the property."""

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: Any, owner: type | None = None) -> _T:
        value: _T = self._make(one)
        one.__dict__[self._name] = value
        return value
