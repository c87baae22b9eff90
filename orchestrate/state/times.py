"""Moments as the state shows them, ISO 8601 in UTC, and as people read them, on their clock."""

from __future__ import annotations

import re
import time
from functools import lru_cache

_DUST = 0.001
# The years 1000 to 9999: all that four digits write. What lies beyond is shown as the nearest end.
_EARLIEST = -30_610_224_000.0
_LATEST = 253_402_300_799.0


def timestamp(seconds: float) -> str:
    """A moment with milliseconds; the clock may stand anywhere, also before 1970."""
    # Written so that what is no number becomes the latest moment.
    seconds = max(seconds, _EARLIEST) if seconds < _LATEST else _LATEST
    whole = int(seconds // 1)
    # A moment that was read from such a text is written as it was, though 0.123 is a bit less.
    thousandths = min(int((seconds - whole) * 1000 + _DUST), 999)
    return f"{_second(whole)}.{thousandths:03d}Z"


@lru_cache(maxsize=8)
def _second(whole: int) -> str:
    """Several moments of a step are in the same second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def local_time(text: str) -> str:
    """A moment that `timestamp` wrote, as the clock on the reader's wall shows it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds_of(text)))


def seconds_of(text: str) -> float:
    """The moment that `timestamp` wrote."""
    import calendar

    stem, _, rest = text.removesuffix("Z").partition(".")
    try:
        moment = time.strptime(stem, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        # Versions that knew no bounds wrote other years, too.
        year = re.match(r"(-?\d+)-", stem)
        if year is None:
            raise
        return _LATEST if int(year[1]) > 9999 else _EARLIEST
    return calendar.timegm(moment) + float(f"0.{rest or 0}")
