"""What every test of files must leave as it was."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_descriptor_is_lost() -> Iterator[None]:
    """A descriptor that an error path forgets ends a long run with "too many open files"."""
    before = _open_descriptors()
    yield
    if _open_descriptors() > before:
        # Those that wait for the collector, which takes half a second beside all other tests.
        gc.collect()
    assert _open_descriptors() <= before


def _open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))
