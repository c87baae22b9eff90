"""Folders for tests of files."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of syncs to a disk take a minute."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK | os.X_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _no_descriptor_is_lost() -> Iterator[None]:
    """A descriptor that an error path forgets ends a long run with "too many open files"."""
    before = _open_descriptors()
    yield
    gc.collect()
    assert _open_descriptors() <= before


def _open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))
