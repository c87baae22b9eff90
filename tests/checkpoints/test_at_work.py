"""`rewind` where programs are at work: it changes no files under their hands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.checkpoints.test_runs import Worked, works
from tests.edits.ledger import asks, machine, recipe, workflow
from tests.promises.processes import wait_until

_BEATS = """
import os, re
def answer(prompt):
    while "STEP:b" in prompt and not os.path.exists("fail-go"):
        open("beat", "w").close()
        time.sleep(0.02)
    return 'did it\\n{"outcome": "done"}'
"""
_BEATS_TOO = 'command: ["sh", "-c", "while test ! -e fail-go; do touch beat; sleep 0.02; done"]'
SHAPES = {
    "workflow": workflow(works("a"), f"  - {{name: b, {_BEATS_TOO}}}\n"),
    "recipe": recipe(asks("a"), asks("b")),
    "machine": machine("a", "b"),
}


def test_a_neighbour_at_work_is_left_alone(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(workflow(works("a")))
    first = os.readlink(stage.runs_folder / "latest")
    waits = '  - {name: wait, command: ["sh", "-c", "echo here; sleep 600"]}\n'
    with stage.started(workflow(waits)) as process:
        assert process.stderr is not None
        while "wait: Running" not in process.stderr.readline():
            pass
        refused = stage.run("rewind", first, "a", "--yes").assert_exit(5)
        stage.run("stop", "latest").assert_success()
    assert "is at work in this workspace" in refused.stderr
    assert stage.files() == {"by-a"}


@pytest.mark.parametrize("dialect", SHAPES)
def test_what_a_killed_orchestrator_has_left_at_work_is_ended_first(
    tmp_path: Path, dialect: str
) -> None:
    stage = Worked(tmp_path)
    stage.claude(_BEATS)
    with stage.started(SHAPES[dialect]) as run:
        wait_until((stage.folder / "beat").exists, "b never began")
        run.kill()
        run.wait(60)
    refused = stage.run("rewind", "latest", "a", "--yes").assert_exit(5).stderr
    assert "a program of run " in refused
    run_id = os.readlink(stage.runs_folder / "latest")
    assert f"end it: orchestrate stop {run_id}\n" in refused
    stage.run("stop", "latest").assert_exit(0)
    stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    (stage.folder / "beat").unlink(missing_ok=True)
    stage.touch("fail-go")
    stage.resume()
    assert not (stage.folder / "beat").exists()
