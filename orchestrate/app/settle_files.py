"""Finishes what a killed `rewind` left half-done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.checkpoints.restore import put_back_interrupted
from orchestrate.checkpoints.store import open_store

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run


def settle_files(run: Run, state: RunState) -> None:
    """Put back what a killed `rewind` left half-done, before anything else happens to the run."""
    files = open_store(run.root)
    if files is not None and files.exists:
        put_back_interrupted(files, state.checkpoint.get("token", ""))
