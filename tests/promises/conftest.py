"""Lanes that start commands quickly, and a folder whose syncs cost nothing."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.lanes import Lanes
from tests.promises.processes import end_all_in

MEMORY = "/dev/shm"


@pytest.fixture(scope="session", autouse=True)
def hearing_commands() -> Iterator[None]:
    """Whoever started the tests may ignore signals (nohup, `&`); commands would inherit that."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, reaction in before.items():
        if reaction == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    yield
    for number, reaction in before.items():
        signal.signal(number, reaction)


@pytest.fixture(scope="session")
def lanes(hearing_commands: None) -> Iterator[Lanes]:
    """Two, like the cores of the smallest machine that the tests are meant for."""
    made = Lanes(2)
    yield made
    made.close()


@pytest.fixture
def quick_top() -> Iterator[Path]:
    """A folder in memory where there is one; keepers that are left in it end with the test."""
    memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            end_all_in(Path(folder))
