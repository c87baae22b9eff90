"""The workshop that every test of recipes works in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.lanes import Lanes
from tests.promises.processes import folder_in_memory
from tests.recipes.fakes import Workshop


@pytest.fixture(scope="session")
def lanes() -> Iterator[Lanes]:
    """Two, because some commands are given at the same time."""
    made = Lanes(2)
    yield made
    made.close()


@pytest.fixture
def quick_top() -> Iterator[Path]:
    """A folder in memory where there is one; keepers that are left in it end with the test."""
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def shop(quick_top: Path) -> Workshop:
    """What survives a power cut is tested elsewhere, so syncing may cost nothing here."""
    return Workshop(quick_top)
