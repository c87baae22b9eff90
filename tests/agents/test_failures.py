"""Why there was no answer, and when to come back, from what programs say."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from orchestrate.agents.base import FailureKind
from orchestrate.agents.failures import (
    failure_of,
    header_time,
    reason_in,
    stderr_tail,
)

# 2026-11-16 08:00:00 UTC
NOW = dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid-request"), (401, "auth"), (402, "limit"), (403, "auth"),
        (404, "invalid-request"), (408, "network"), (413, "invalid-request"),
        (422, "invalid-request"), (429, "rate-limit"), (500, "overloaded"), (502, "overloaded"),
        (503, "overloaded"), (504, "overloaded"), (529, "overloaded"),
    ],
)  # fmt: skip
def test_a_status_says_the_kind(status: int, kind: FailureKind) -> None:
    failure = failure_of("it went wrong", NOW, status=status)
    assert (failure.kind, failure.http_status) == (kind, status)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Invalid API key · Please run /login", "auth"),
        ("Not logged in", "auth"),
        ("OAuth token has expired", "auth"),
        ("Claude AI usage limit reached|1794830000", "rate-limit"),
        ("You've hit your limit · resets 3pm", "rate-limit"),
        ("RESOURCE_EXHAUSTED: Quota exceeded", "rate-limit"),
        ("Overloaded", "overloaded"),
        ("We\u2019re currently experiencing high demand", "overloaded"),
        ("getaddrinfo ENOTFOUND api.example.com", "network"),
        ("Connection failed: error sending request", "network"),
        ("TypeError: fetch failed", "network"),
        ("Prompt is too long", "limit"),
        ("Your credit balance is too low", "limit"),
        ("No conversation found with session ID: x", "session"),
        ("Error: Session ID 2ff6 is already in use.", "session"),
        ('Error starting session: Session ID "9" already exists.', "session"),
        ("Error: Session not found", "session"),
        ("No session, task, or name matched 'x'", "session"),
        ("The user rejected permission to use this tool", "refused"),
        ("blocked by content filter", "refused"),
        ("error: unknown option '--zork'", "invalid-request"),
        ("No prompt provided via stdin.", "invalid-request"),
        ("You've hit your session limit · resets 5:30pm", "rate-limit"),
        ("You've hit your weekly limit", "rate-limit"),
        ("segmentation fault", "crash"),
        ("ModuleNotFoundError: No module named 'x'", "crash"),
        ("cannot read quotation.txt", "crash"),
        ("", "crash"),
    ],
)
def test_words_say_the_kind(message: str, kind: FailureKind) -> None:
    assert failure_of(message, NOW).kind == kind


def test_a_status_in_the_message_counts() -> None:
    failure = failure_of("unexpected status 503 Service Unavailable: x", NOW)
    assert (failure.kind, failure.http_status) == ("overloaded", 503)


def test_what_the_service_said_is_shown_without_its_wrapping() -> None:
    wrapped = '[API Error: {"error":{"code":400,"message":"the model is gone","status":"X"}}]'
    failure = failure_of(wrapped, NOW)
    assert failure.message == "the model is gone"
    assert (failure.kind, failure.http_status) == ("invalid-request", 400)


def test_a_message_is_one_readable_line() -> None:
    failure = failure_of("\x1b[91mError:\x1b[0m it\nfailed " + "x" * 5000, NOW)
    assert failure.message.startswith("Error: it failed xxx")
    assert len(failure.message) <= 600


def test_too_long_a_prompt_is_a_limit_whatever_the_status() -> None:
    assert failure_of("prompt is too long: 210000 tokens", NOW, status=400).kind == "limit"


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Claude AI usage limit reached|" + str(int(NOW) + 5000), 5000),
        ("retry-after: 30", 30),
        ('"retryDelay": "41s"', 41),
        ("Please try again in 20s.", 20),
        ("Please try again in 1.5s.", 1.5),
        ("Please try again in 250ms", 0.25),
        ("Try again in 2 days 3 hours 4 minutes.", 2 * 86400 + 3 * 3600 + 4 * 60),
        ("Your quota will reset after 2h13m5s.", 2 * 3600 + 13 * 60 + 5),
        ("limit resets in 5 hours and 2 minutes", 5 * 3600 + 120),
        ("try again at 2026-11-16T09:00:00Z", 3600),
        ("You've hit your limit · resets 3pm (Europe/Berlin)", 6 * 3600),
        ("5-hour limit reached ∙ resets 9:30am (Europe/Berlin)", 1800),
        ("resets 8am (Europe/Berlin)", 23 * 3600),
        ("You've hit your weekly limit · resets Nov 21, 9am (UTC)", 5 * 86400 + 3600),
        ("resets Nov 21 at 10:30am (Europe/Berlin)", 5 * 86400 + 5400),
        ("try again at Nov 21st, 2026 9:05 AM (UTC).", 5 * 86400 + 3900),
        ("resets Nov 31, 9am (UTC)", None),
        ("resets Jan 2, 9am (UTC)", None),
        ("resets 25pm", None),
        ("resets 13pm", None),
        ("resets at 2036-11-18T15:00:00Z", None),
        ("usage limit reached|" + str(int(NOW) + 5000) + "000", 5000),
        ("resets 20:15 (UTC/Nowhere)", None),
        ("rate limited, later", None),
        ("limit reached|1000000000", None),
        ("try again in 900 days", None),
    ],
)
def test_when_to_come_back(
    message: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = failure_of(message, NOW, status=429).retry_at
    if message.startswith("resets 20:15"):
        # An unknown zone: the clock here is meant.
        assert found is not None
        assert dt.datetime.fromtimestamp(found).astimezone().strftime("%H:%M") == "20:15"
    elif seconds is None:
        assert found is None
    else:
        assert found == pytest.approx(NOW + seconds)


@pytest.mark.parametrize("told", ["1000000000", "9" * 13, "9" * 20])
def test_a_time_that_no_limit_ends_at_is_told_on(told: str) -> None:
    """A person has to look: to ask five times more and to fail would be no help."""
    failure = failure_of(f"Claude AI usage limit reached|{told}", NOW)
    assert (failure.retry_at, failure.distrusted) == (None, float(told))


def test_a_clock_that_tells_minutes_has_just_passed_within_one() -> None:
    """A reset at nine is asked for within the minute, not a day later."""
    words = "rate limit, resets 9am (Europe/Berlin)"
    assert failure_of(words, NOW + 59).retry_at == NOW
    assert failure_of(words, NOW + 61).retry_at == NOW + 86400


def test_a_rate_limit_says_when_and_others_do_not() -> None:
    assert failure_of("usage limit, try again in 60s", NOW).retry_at == pytest.approx(NOW + 60)
    assert failure_of("overloaded, try again in 60s", NOW).retry_at is None


def test_a_header_says_when() -> None:
    assert header_time({"retry-after": "7"}, NOW) == NOW + 7
    assert header_time({"date": "x"}, NOW) is None
    assert header_time(None, NOW) is None


def test_the_reason_is_found_among_noise() -> None:
    complaint = (
        "Warning: 256-color support not detected.\n"
        "Loaded cached credentials.\n"
        'Error resuming session: Invalid session identifier "x".\n'
        "  Use --list-sessions to see available sessions.\n"
        "    at async Turn.run (file:///x.js:1:1)\n"
    )
    assert reason_in(complaint) == 'Error resuming session: Invalid session identifier "x".'
    assert reason_in("one\ntwo\n\n") == "two"
    assert reason_in("") == ""


def test_only_the_end_of_a_complaint_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stderr"
    path.write_bytes(b"x" * 1_000_000 + b"\n\x1b[31mError: \xff the end\n")
    assert stderr_tail(path).endswith("Error: \ufffd the end\n")
    assert len(stderr_tail(path)) < 20_000
    assert stderr_tail(tmp_path / "missing") == ""
