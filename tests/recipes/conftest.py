"""The workshop that every test of recipes works in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.lanes import Lanes
from tests.recipes.fakes import Workshop


@pytest.fixture(scope="session")
def lanes() -> Lanes:
    """Two, because some commands are given at the same time."""
    return Lanes(2)


@pytest.fixture
def shop(quick_top: Path) -> Workshop:
    """What survives a power cut is tested elsewhere, so syncing may cost nothing here."""
    return Workshop(quick_top)


def zone_at_midnight() -> str:
    """A zone in which a day begins now: what was spent before this was spent yesterday."""
    time.sleep(1 - time.time() % 1)
    return time.strftime("NIGHT+%H:%M:%S", time.gmtime(round(time.time())))


@pytest.fixture
def noon() -> Iterator[None]:
    """It is past noon: no budget of a day ends while the test runs."""
    with pytest.MonkeyPatch.context() as patch:
        # The offset as POSIX has it, which is what is to be added for UTC.
        patch.setenv("TZ", f"NOON{time.gmtime().tm_hour - 12:+d}")
        time.tzset()
        yield
    time.tzset()
