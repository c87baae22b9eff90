"""The workshop that every test of recipes works in."""

from __future__ import annotations

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
