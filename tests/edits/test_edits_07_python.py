"""Edits from Python, as from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate import api
from orchestrate.errors import UsageError
from tests.edits.ledger import Ledger, command, workflow


def test_edits_07_resume_takes_edits(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.play(workflow(command("a"), command("b"), command("c")))
    stage.ran()
    stage.edit("echo b", "echo  b")
    assert api.resume(workspace=stage.folder, edited=True).exit_code == 0
    assert stage.ran() == ["b", "c"]
    stage.edit("echo a", "echo  a")
    api.resume(workspace=stage.folder, redo=["c"], accept=["a"])
    assert stage.ran() == ["c"]
    with pytest.raises(UsageError, match="has no result"):
        api.resume(workspace=stage.folder, redo=["nobody"])
