"""Numbers on the command line, with words for people where click has `1<=x<=1000000000`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from orchestrate.plan.durations import seconds_of

if TYPE_CHECKING:
    _ParamType = click.ParamType[int | float]
else:
    # Not generic in the older releases that we work with.
    _ParamType = click.ParamType

# More than this is a slip, and timers cannot hold it.
MOST = 1_000_000_000


class Number(_ParamType):
    """A number from `least` to `most`."""

    def __init__(self, kind: type[int] | type[float], least: int, most: int = MOST) -> None:
        self.name = "whole number" if kind is int else "number"
        self._kind = kind
        self._least = least
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        try:
            number = self._kind(value)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is not a {self._wanted()}", param, ctx)
        if number > self._most:
            self.fail(f"{value} is too large: at most {self._most} is allowed", param, ctx)
        # Written so that `nan` does not pass either.
        if not number >= self._least:
            self.fail(f"{value} is not a {self._wanted()}", param, ctx)
        return number

    def _wanted(self) -> str:
        return f"{self.name} of at least {self._least}"


class Duration(_ParamType):
    """Seconds, or a number with units: more than 0, unless it may be zero."""

    name = "duration"

    def __init__(self, *, may_be_zero: bool = False, most: int = MOST) -> None:
        self._may_be_zero = may_be_zero
        self._most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = seconds_of(str(value)) or math.nan
        if seconds > self._most:
            self.fail(f"{value} is too large: at most {self._most} s are allowed", param, ctx)
        if not (seconds > 0 or (self._may_be_zero and seconds == 0)):
            self.fail(f"'{value}' is not a duration: write seconds, 90s, 5m or 1h30m", param, ctx)
        return seconds


AT_LEAST_0 = Number(int, 0)
