"""Moments as the state shows them, ISO 8601 in UTC, and as people read them, on their clock."""

from __future__ import annotations

import re
import time
from functools import lru_cache

_DUST = 0.001
# The years 1000 to 9999: all that four digits write. What lies beyond is shown as the nearest end.
_EARLIEST = -30_610_224_000.0
_LATEST = 253_402_300_799.0
# Of a duration more is not shown: a century.
_LONGEST_MS = 1000.0 * 36525 * 86400


def timestamp(seconds: float) -> str:
    """A moment with milliseconds; the clock may stand anywhere, also before 1970."""
    if not _EARLIEST <= seconds < _LATEST:
        # Written so that what is not a number becomes the latest moment.
        seconds = _EARLIEST if seconds < _EARLIEST else _LATEST
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


def zone_at(text: str) -> str:
    """The zone of that clock at that moment: `UTC`, or how far it is ahead, as in `+02:00`."""
    ahead = time.localtime(seconds_of(text)).tm_gmtoff
    sign, minutes = "-+"[ahead >= 0], abs(ahead) // 60
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if ahead else "UTC"


def seconds_of(text: str) -> float:
    """The moment that `timestamp` wrote."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text.removesuffix("Z"))
    except ValueError:
        # Versions that knew no bounds wrote other years, too.
        year = re.match(r"(-?\d+)-", text)
        if year is None:
            raise
        return _LATEST if int(year[1]) > 9999 else _EARLIEST
    return moment.replace(tzinfo=UTC).timestamp()


def duration(milliseconds: float) -> str:
    seconds = min(milliseconds, _LONGEST_MS) / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"
