"""Moments are written with milliseconds, and read again as they were."""

from __future__ import annotations

from datetime import datetime

import pytest

from orchestrate.state.times import seconds_of, timestamp


@pytest.mark.parametrize(
    "second", ["2026-11-16T13:58:09", "1969-12-31T23:59:59", "2100-01-01T00:00:00"]
)
def test_what_was_read_is_written_as_it_was(second: str) -> None:
    for thousandths in range(1000):
        text = f"{second}.{thousandths:03d}Z"
        assert timestamp(datetime.fromisoformat(text).timestamp()) == text
        assert timestamp(seconds_of(text)) == text
