"""The user's ledger: which calls are of a day."""

from __future__ import annotations

import time

import pytest

from orchestrate.state.ledger import day_around, day_of

_HOUR = 3600
# As in Havana, the Azores, Berlin, and where clocks once were set forward at midnight.
ZONES = (
    "CST5CDT,M3.2.0/0,M11.1.0/1",
    "AZ1AZS,M3.5.0/0,M10.5.0/1",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "BR3BRS,M11.1.0/0,M2.3.0/0",
    "UTC0",
)


@pytest.mark.parametrize("zone", ZONES)
def test_each_instant_is_of_one_day_also_when_midnight_comes_twice_or_never(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        first, year = 1_767_225_600, 366 * 24 * _HOUR
        for moment in range(first, first + year, _HOUR):
            begin, end = day_around(moment)
            assert begin <= moment < end
            assert day_of(begin - 1) < day_of(begin) == day_of(moment) == day_of(end - 1)
    finally:
        monkeypatch.undo()
        time.tzset()
