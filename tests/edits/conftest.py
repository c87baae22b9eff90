"""What tests of edits share."""

from __future__ import annotations

import pytest

_PAUSE = "orchestrate.engine.checkpoints._BETWEEN_S"


@pytest.fixture
def captured_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick commands have a checkpoint each, as agents have."""
    monkeypatch.setattr(_PAUSE, 0.0)


@pytest.fixture
def captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands share a checkpoint, however long a busy machine takes over them."""
    monkeypatch.setattr(_PAUSE, 3600.0)
