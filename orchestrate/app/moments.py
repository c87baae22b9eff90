"""Moments and ages as people write them: `36h`, `2h ago`, `2025-01-15`, `…T14:30Z`."""

from __future__ import annotations

import time

from orchestrate.errors import UsageError
from orchestrate.regex import regex

_AGE = regex(r"\A(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])\Z")
_AGO = regex(r"\s+ago\Z")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def age_in_seconds(flag: str, text: str) -> float:
    """A number and a unit."""
    match = _AGE.match(text.strip())
    if match is None:
        raise UsageError(
            f"{flag} '{text}' is not an age", "write a number and one of s m h d w, e.g. 36h"
        )
    return float(match[1]) * UNITS[match[2]]


def moment_of(flag: str, text: str, now: float | None = None) -> float:
    """So long ago, or a date or time; local time unless it ends in Z or has an offset."""
    from datetime import datetime

    stripped = text.strip()
    age = _AGO.sub("", stripped)
    if _AGE.match(age):
        return (time.time() if now is None else now) - age_in_seconds(flag, age)
    try:
        # Before the year 1000 or so, `timestamp` fails in ways of its own.
        return datetime.fromisoformat(stripped).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{flag} '{text}' is not a time",
            "write an age, e.g. 2h, or a date or time, e.g. 2025-01-15 or 2025-01-15T14:30Z",
        ) from None
