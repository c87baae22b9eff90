"""What went wrong, from what a program says about it: the kind of failure, and when to come back.

Exit codes do not tell (agent programs use 0, 1 and 144 for the same thing), so the kind is read off
the HTTP status where there is one, and else off the words of the message.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.agents.base import Failure, FailureKind
from orchestrate.agents.parse import events_in, one_line, plain_text, text_at, value_at
from orchestrate.regex import regex

if TYPE_CHECKING:
    from datetime import datetime

_LONGEST_MESSAGE = 600
_LONGEST_READ = 20_000
_STDERR_TAIL = 16 << 10
# No limit of a plan lasts longer than a week.
LONGEST_LIMIT_S = 8 * 86_400.0
# Of a time that has just passed.
_JUST_PASSED_S = 60.0

# The first that fits decides. These hold whatever the HTTP status says.
_WORDS_OVER_STATUS: dict[FailureKind, tuple[str, ...]] = {
    "limit": (
        r"context (?:window|length)|(?:prompt|input|request) is too (?:long|large)",
        r"too many tokens|credit balance|insufficient_quota|billing",
        r"maximum (?:number of turns|budget)",
    ),
    "refused": (r"content (?:policy|filter|management)|usage policy|safety (?:filter|setting)",),
}
_WORDS: dict[FailureKind, tuple[str, ...]] = {
    "session": (
        r"no conversation found|no rollout found|thread/resume|resuming session|invalid session",
        r"session (?:id )?\S* ?(?:is )?(?:already|not found|in use)|no (?:saved )?session",
    ),
    "rate-limit": (
        r"rate.?limit|usage limit|too many requests|\bquota\b|resource.?exhausted",
        r"(?:hit|reached) your (?:[\w-]+ ){0,3}limit|limit reached",
    ),
    "auth": (
        r"api.?key|unauthori[sz]ed|unauthenticated|authenticat|oauth|credential|forbidden",
        r"log.?in\b|logged in|permission_error|auth type",
    ),
    "overloaded": (
        r"overloaded|high demand|server.?(?:side )?(?:error|issue)|unavailable|capacity",
        r"try again in a moment|transient|bad gateway|internal error|empty response",
    ),
    "network": (
        r"\beconn|\b(?:enotfound|eai_again|etimedout|ehostunreach|enetunreach|epipe|dns)\b",
        r"getaddrinfo",
        r"connection|unable to connect|network|fetch failed|socket|sending request",
        r"stream (?:disconnected|closed)|timed? ?out",
    ),
    "refused": (r"rejected permission|permission denied|not trusted|untrusted",),
    "invalid-request": (
        r"no (?:prompt|input) provided|input must be provided|must provide a message",
        r"invalid.?request|invalid.?argument|unexpected argument|unknown (?:option|argument|model)",
        r"model.{0,60}not.{0,5}(?:found|exist|supported)",
    ),
}
_STATUS = regex(
    r"(?:status|code|http|api error|error)[\"']?\s{0,9}[:=(]?\s{0,9}([45]\d\d)\b", re.IGNORECASE
)
_LOOKS_LIKE_A_REASON = regex(
    r"error|fail|cannot|can't|could not|invalid|denied|not found|unknown|must|no prompt",
    re.IGNORECASE,
)


def failure_of(
    message: str,
    now: float,
    *,
    status: int | None = None,
    kind: FailureKind | None = None,
    retry_at: float | None = None,
) -> Failure:
    """The failure that a message tells about; `kind` is what to take when nothing else tells."""
    message = message[:_LONGEST_READ]
    if status is None and (shown := _STATUS.search(message)):
        status = int(shown[1])
    found = _kind_of(message, status) or kind or "crash"
    told = [] if retry_at is None else [retry_at]
    if found == "rate-limit":
        told += _times_in(message, now)
    at = next((at for t in told if (at := _in_reach(t, now)) is not None), None)
    distrusted = next(iter(told), None) if found == "rate-limit" and at is None else None
    said = one_line(_unwrap(message), _LONGEST_MESSAGE) or f"it did not say why ({found})"
    return Failure(found, said, http_status=status, retry_at=at, distrusted=distrusted)


def _kind_of(message: str, status: int | None) -> FailureKind | None:
    if kind := _by_words(message, _WORDS_OVER_STATUS):
        return kind
    return _by_status(status) if status is not None else _by_words(message, _WORDS)


def _by_words(message: str, table: dict[FailureKind, tuple[str, ...]]) -> FailureKind | None:
    for kind, words in table.items():
        if any(re.search(pattern, message, re.IGNORECASE) for pattern in words):
            return kind
    return None


def _by_status(status: int) -> FailureKind:
    if status in (401, 403, 407):
        return "auth"
    if status == 402:
        return "limit"
    if status == 408:
        return "network"
    if status == 429:
        return "rate-limit"
    return "overloaded" if status >= 500 else "invalid-request"


def _unwrap(message: str) -> str:
    """The words inside: some programs hand on the service's whole JSON answer as their message."""
    start = message.find("{")
    if start >= 0:
        for answer in events_in(message[start : message.rfind("}") + 1].encode("utf-8", "replace")):
            inner = text_at(answer, "error", "message") or text_at(answer, "message")
            if inner:
                return inner
    return message


def stderr_tail(path: Path) -> str:
    """The end of what a program complained about, as plain text."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _STDERR_TAIL))
            return plain_text(file.read().decode("utf-8", "replace"))
    except FileNotFoundError:
        return ""


def reason_in(complaint: str) -> str:
    """The line of a complaint that says why: the first that reads like a reason, else the last."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    lines = [line for line in lines if not line.lower().startswith(("warning", "at "))] or lines
    reasons = [line for line in lines if _LOOKS_LIKE_A_REASON.search(line)]
    return (reasons or lines[-1:] or [""])[0]


# When to come back.

_EPOCH = regex(r"\|(\d{10,25})\b")
_AFTER = regex(
    r"(?:retry.?after|retry.?delay|(?:try|retry) again in|resets? (?:after|in)|available in)"
    r"[\"'\s:=]*((?:\d+(?:\.\d+)?\s*(?:[a-z]+)?[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_AMOUNT = regex(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_AT_CLOCK = r"(\d{1,2})(?![\d-])(?::(\d\d))?\s*(am|pm)?(?:\s*\(([\w+-]+(?:/[\w/+-]+)?)\))?"
_CLOCK = regex(rf"(?:resets?|try again)(?: at)? {_AT_CLOCK}", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE = regex(
    rf"(?:resets?|try again)(?: at| on)? ({'|'.join(_MONTHS)})[a-z]* (\d{{1,2}})(?:st|nd|rd|th)?"
    rf"(?:,? (\d{{4}}))?(?:,? at|,)? {_AT_CLOCK}",
    re.IGNORECASE,
)
_MOMENT = regex(r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _times_in(message: str, now: float) -> list[float]:
    """Every time that a message tells, the surest first; they may be absurd."""
    told = []
    for read in (_from_epoch, _from_duration, _from_moment, _from_date, _from_clock):
        with suppress(ValueError, OverflowError):
            at = read(message, now)
            if at is not None:
                told.append(at)
    return told


def _in_reach(at: float, now: float) -> float | None:
    """A moment in seconds that a limit can end at, also if it was told in milliseconds."""
    for seconds in (at, at / 1000):
        if now - _JUST_PASSED_S <= seconds <= now + LONGEST_LIMIT_S:
            return seconds
    return None


def _from_epoch(message: str, _now: float) -> float | None:
    found = _EPOCH.search(message)
    return float(found[1]) if found else None


def _from_duration(message: str, now: float) -> float | None:
    found = _AFTER.search(message)
    if found is None:
        return None
    seconds = 0.0
    for amount, unit in _AMOUNT.findall(found[1]):
        name = unit.lower()
        short = "ms" if name.startswith(("ms", "milli")) else name[:1] or "s"
        if short not in _UNITS:
            break
        seconds += float(amount) * _UNITS[short]
    return now + seconds


def _from_moment(message: str, _now: float) -> float | None:
    import datetime as dt

    found = _MOMENT.search(message)
    return dt.datetime.fromisoformat(found[1]).timestamp() if found else None


def _from_date(message: str, now: float) -> float | None:
    """`resets Nov 21, 9am (UTC)`, `try again at Nov 21st, 2026 3:05 PM`: without a year, the
    nearest such day."""
    found = _DATE.search(message)
    clock = None if found is None else _clock_of(*found.group(4, 5, 6))
    if found is None or clock is None:
        return None
    month, day = _MONTHS.index(found[1].lower()) + 1, int(found[2])
    here = _local(now, found[7])
    then = here.replace(month=month, day=day, hour=clock[0], minute=clock[1], second=0,
                        microsecond=0)  # fmt: skip
    years = (int(found[3]),) if found[3] else (here.year - 1, here.year, here.year + 1)
    return min((then.replace(year=y).timestamp() for y in years), key=lambda at: abs(at - now))


def _from_clock(message: str, now: float) -> float | None:
    """`resets 3pm (Europe/Berlin)`: the next time that the clock there shows it; it tells minutes,
    so that one that has just passed is now."""
    found = _CLOCK.search(message)
    clock = None if found is None else _clock_of(*found.group(1, 2, 3))
    if found is None or clock is None:
        return None
    here = _local(now, found[4])
    then = here.replace(hour=clock[0], minute=clock[1], second=0, microsecond=0)
    if then.timestamp() < now - _JUST_PASSED_S:
        import datetime as dt

        then += dt.timedelta(days=1)
    return then.timestamp()


def _clock_of(hours: str, minutes: str | None, half: str | None) -> tuple[int, int] | None:
    """The hour and minute that a clock shows; None where no clock can."""
    hour, minute = int(hours), int(minutes or 0)
    if minute > 59 or hour > (12 if half else 23):
        return None
    return (hour % 12 + (12 if half.lower() == "pm" else 0) if half else hour), minute


def _local(now: float, zone_name: str | None) -> datetime:
    """The moment on the clock of a zone; on the one here, where the zone is not known."""
    # Only a program that has met its limit says so, and both take longer to load than a step.
    import datetime as dt
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        zone = ZoneInfo(zone_name) if zone_name else None
    except (OSError, ValueError, ZoneInfoNotFoundError):
        zone = None
    return dt.datetime.fromtimestamp(now, dt.UTC).astimezone(zone)


def header_time(headers: object, now: float) -> float | None:
    """When a `retry-after` among HTTP headers says to come back."""
    after = value_at(headers, "retry-after")
    told = _times_in(f"retry-after: {after}", now) if isinstance(after, str | int) else []
    return next(iter(told), None)
