"""Lanes that start commands quickly."""

from __future__ import annotations

import pytest

from tests.promises.lanes import Lanes


@pytest.fixture(scope="session")
def lanes(hearing_commands: None) -> Lanes:
    """Two, like the cores of the smallest machine that the tests are meant for."""
    return Lanes(2)
