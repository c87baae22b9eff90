"""Durations as authors write them: a number of seconds, or `90s`, `5m`, `1h30m`."""

from __future__ import annotations

from orchestrate.regex import regex

_DURATION = regex(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?\Z")
_UNITS = (86400.0, 3600.0, 60.0, 1.0)


def as_written(seconds: float) -> str:
    """A duration as an author would write it: `2h`, `1m30s`, `0.5s`."""
    whole, words = int(seconds), ""
    for unit, letter in zip((86400, 3600, 60), "dhm", strict=True):
        count, whole = divmod(whole, unit)
        words += f"{count}{letter}" if count else ""
    rest = whole + seconds - int(seconds)
    return f"{words}{rest:.3g}s" if rest or not words else words


def seconds_of(written: str | float) -> float:
    """The seconds of a duration; 0 for what the schema has refused."""
    if not isinstance(written, str):
        return float(written)
    match = _DURATION.match(written)
    if match is None:
        return 0.0
    parts = zip(match.groups(), _UNITS, strict=True)
    return sum(float(part) * unit for part, unit in parts if part)
