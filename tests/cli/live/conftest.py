"""A workspace for runs that are looked at; what they leave running ends with the test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.processes import end_all_in
from tests.recipes.fakes import Workshop

_MEMORY = "/dev/shm"


@pytest.fixture
def shop() -> Iterator[Workshop]:
    """A workspace with a fake agent, in memory where there is one."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        try:
            yield Workshop(Path(folder))
        finally:
            end_all_in(Path(folder))


@pytest.fixture
def folder(shop: Workshop) -> Path:
    return shop.folder
