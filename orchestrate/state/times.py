"""Moments as the state shows them: ISO 8601 in UTC."""

from __future__ import annotations

import time
from functools import lru_cache

_DUST = 0.001


def timestamp(seconds: float) -> str:
    """A moment with milliseconds; the clock may stand anywhere, also before 1970."""
    whole = int(seconds // 1)
    # A moment that was read from such a text is written as it was, though 0.123 is a bit less.
    thousandths = min(int((seconds - whole) * 1000 + _DUST), 999)
    return f"{_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=8)
def _second(whole: int) -> str:
    """Several moments of a step are in the same second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def seconds_of(text: str) -> float:
    """The moment that `timestamp` wrote."""
    import calendar

    stem, _, rest = text.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(stem, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{rest or 0}")
