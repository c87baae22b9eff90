"""A copied run that is edited keeps its results, and leaves the original's sessions alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, machine
from tests.edits.test_edits_01_go_on import change

NAMES = ("a", "b", "c")


@pytest.mark.parametrize("flags", [("--edited",), ("--redo", "c")])
def test_edits_10_a_copy_begins_new_sessions(tmp_path: Path, flags: tuple[str, ...]) -> None:
    stage = Ledger(tmp_path)
    stage.play(machine(*NAMES), "--session", "new")
    stage.ran()
    (session,) = {stage.state()["steps"][name]["session_id"] for name in NAMES}
    original = (stage.runs_folder / "latest").resolve()
    aside = original.with_name("aside")
    shutil.copytree(original, aside, ignore=shutil.ignore_patterns("socket"))
    shutil.rmtree(original)
    aside.rename(original)
    change(stage, "machine", "c")
    told = stage.resume(*flags).stderr
    assert "this run is a copy of another" in told
    assert "reuse 2, run 1: c (" in told
    assert stage.ran() == ["c"]
    assert stage.state()["steps"]["c"]["session_id"] != session
    # What the copy has done since is its own.
    own = stage.state()["steps"]["c"]["session_id"]
    assert "reuse 2, run 1: c (" in stage.resume("--redo", "c").stderr
    assert stage.ran() == ["c"]
    assert stage.state()["steps"]["c"]["session_id"] == own
