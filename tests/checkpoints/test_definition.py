"""`rewind` where the run's own definition is among the files that go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints.places import git
from tests.checkpoints.test_runs import SHAPES, Worked

DEEDS = {
    "changed": 'open("w.yaml", "w").write(before.replace("STEP:a", "And STEP:a"))',
    "broken": 'open("w.yaml", "a").write("}")',
    "deleted": 'os.unlink("w.yaml")',
}
# The step b spoils the file, once.
_CLAUDE = """
import os, re
def answer(prompt):
    name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    before = open("w.yaml").read() if os.path.exists("w.yaml") else ""
    if name == "b" and not os.path.exists("fail-never"):
        open("fail-never", "w").close()
        {deed}
    return "did " + name + '\\n{{"outcome": "done"}}'
"""


@pytest.mark.parametrize("deed", DEEDS)
@pytest.mark.parametrize("dialect", SHAPES)
def test_a_run_is_rewound_with_the_definition_that_it_has(
    tmp_path: Path, dialect: str, deed: str
) -> None:
    """What a step has made of the file counts neither for the way back nor after it."""
    stage = Worked(tmp_path)
    stage.claude(_CLAUDE.format(deed=DEEDS[deed]))
    stage.write("w.yaml", SHAPES[dialect])
    git(stage.folder, "add", "-A")
    git(stage.folder, "commit", "-q", "-m", "the definition")
    stage.run("run", "w.yaml").assert_exit(0)
    assert stage.ran() == ["a", "b", "c"]
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    assert (stage.folder / "w.yaml").read_text() == SHAPES[dialect]
    stage.resume()
    assert stage.ran() == ["b", "c"]


def test_an_edit_that_waits_for_consent_still_does_behind_a_rewind(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.write(".gitignore", "ledger\nw.yaml\n")
    stage.play(SHAPES["recipe"])
    stage.ran()
    stage.edit("STEP:a", "Now STEP:a")
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    assert "has changed: w.yaml" in stage.resume(exit_code=2).stderr
    stage.resume("--as-started")
    assert stage.ran() == ["b", "c"]


def test_what_a_kill_has_left_of_an_edit_is_not_gone_on_with(tmp_path: Path) -> None:
    """A copy of recipes that were found on the way would stand for the files."""
    stage = Worked(tmp_path)
    left = stage.play(SHAPES["recipe"]).root / "edits" / "1" / "plans" / "left.json"
    left.parent.mkdir(parents=True)
    left.write_text("{", "utf-8")
    stage.resume("--redo", "b")
    assert stage.ran() == ["a", "b", "c", "b", "c"]
    assert not left.exists()
