"""A workspace for runs that are looked at; what they leave running ends with the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.conftest import shop
from tests.recipes.fakes import Workshop

__all__ = ["folder", "shop"]


@pytest.fixture
def folder(shop: Workshop) -> Path:
    return shop.folder
