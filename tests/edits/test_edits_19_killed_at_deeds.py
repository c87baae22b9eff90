"""`resume` with an edit, and `fork`, killed in front of their system calls: what is done again is
done once, what is good is kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.checkpoints.killed import Killed
from tests.checkpoints.test_runs import SHAPES
from tests.promises.killing import can_trace

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not can_trace(), reason="kills are given by strace"),
]
HOW = {
    "edit": ("resume", "latest", "--edited"),
    "redo": ("resume", "latest", "--redo", "b"),
    "fork": ("fork", "latest", "--from", "b", "--in-place"),
}


def _sweep(tmp_path: Path, dialect: str, how: str, *, most: int) -> None:
    stage = Killed(tmp_path, SHAPES[dialect], *HOW[how])
    if how == "edit":
        stage.edit("STEP:b", "Now STEP:b")
    first = os.readlink(stage.runs_folder / "latest")
    stage.keep()
    for point in stage.killed(most):
        latest = stage.runs_folder / "latest"
        is_begun = (
            os.readlink(latest) != first
            if how == "fork"
            else '"on":"edited"' in (latest / "events.jsonl").read_text("utf-8")
        )
        again = ("resume", "latest") if is_begun else HOW[how]
        stage.run(*again).assert_exit(0)
        assert stage.ran() == ["b", "c"], point
        assert stage.state()["status"] == "completed"


@pytest.mark.parametrize("how", HOW)
def test_edits_19_killed_on_the_way_it_is_done_once(tmp_path: Path, how: str) -> None:
    _sweep(tmp_path, "recipe", how, most=2)


@pytest.mark.soak
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_19_killed_at_any_deed(tmp_path: Path, dialect: str, how: str) -> None:
    _sweep(tmp_path, dialect, how, most=sys.maxsize)
