"""What tests of captures and of restoring begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrate.checkpoints.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    run = tmp_path / "run"
    run.mkdir()
    found = open_store(run)
    assert found is not None
    yield found
    found.close()
