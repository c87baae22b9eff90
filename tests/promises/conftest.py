"""Lanes that start commands quickly, and a folder whose syncs cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.lanes import Lanes
from tests.promises.processes import folder_in_memory


@pytest.fixture(scope="session")
def lanes(hearing_commands: None) -> Iterator[Lanes]:
    """Two, like the cores of the smallest machine that the tests are meant for."""
    made = Lanes(2)
    yield made
    made.close()


@pytest.fixture
def quick_top() -> Iterator[Path]:
    """A folder in memory where there is one; keepers that are left in it end with the test."""
    with folder_in_memory() as folder:
        yield folder
