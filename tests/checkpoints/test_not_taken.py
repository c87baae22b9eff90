"""Checkpoints that cannot be taken any more in the middle of a run."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoints.test_runs import Worked
from tests.edits.ledger import asks, recipe


def test_diff_says_what_no_checkpoint_has(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.claude(
        """
import os, shutil
def answer(prompt):
    open("by-" + prompt.strip()[-1], "w").close()
    if "STEP:b" in prompt:
        shutil.rmtree(".git")
    return "done"
"""
    )
    stage.play(recipe(asks("a"), asks("b"), asks("c")))
    assert stage.run("diff", "latest", "a", "--files").assert_exit(0).stdout == "A by-a\n"
    refused = stage.run("diff", "latest", "b").assert_exit(2).stderr
    assert "no checkpoint after 'b': it could not be taken (git " in refused
    whole = stage.run("diff", "latest").assert_exit(0)
    assert "not what was changed last: it could not be taken (git " in whole.stdout + whole.stderr


def test_a_checkpoint_that_is_taken_again_tells_all(tmp_path: Path) -> None:
    """What could not be captured once is in the next one."""
    stage = Worked(tmp_path)
    stage.claude(
        """
import os
def answer(prompt):
    open("by-" + prompt.strip()[-1], "w").close()
    if "STEP:b" in prompt:
        os.rename(".git", "fail-git")
    if "STEP:c" in prompt:
        os.rename("fail-git", ".git")
    return "done"
"""
    )
    stage.play(recipe(asks("a"), asks("b"), asks("c")))
    whole = stage.run("diff", "latest", "--files").assert_exit(0)
    assert whole.stdout == "A by-a\nA by-b\nA by-c\n"
    assert "could not be taken" not in whole.stderr
