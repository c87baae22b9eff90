"""Gates, commands and checks as steps are counted and shown (15.5)."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrate.testing import Project
from tests.machines.test_checks import FLAGS, built
from tests.machines.test_commands import LOOP


def test_15_5_a_gate_is_a_step_that_counts(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": LOOP})
    assert "(5 steps)" in project.run("validate", "m.yaml").assert_success().stdout
    flags = ("--backend", "rehearsal", "--rehearse-commands", "--script", "s.yaml")
    project.write("s.yaml", "approve: [waits]\n")
    project.run("run", "m.yaml", "you", *flags).assert_exit(6)
    project.run("approve", "latest").assert_success()
    project.run("resume", "latest").assert_success()
    state = json.loads((tmp_path / ".orchestrate/runs/latest/state.json").read_text())
    # test, fix, mend, test, approve, greet
    assert state["machine"]["stepCount"] == 6
    status = project.run("status", "--json").assert_success().json()
    assert status["steps"]["approve"]["status"] == "completed"
    report = project.run("report", "--format", "md").assert_success().stdout
    assert "approve" in report


def test_15_5_commands_and_checks_that_pass_are_shown(tmp_path: Path) -> None:
    project = built(tmp_path, 1)
    said = project.run("run", "m.yaml", "a wall", *FLAGS).assert_success().stderr
    assert "Step implement:check-1 failed: " in said
    assert "Step implement:check-2: passed (" in said


def test_15_5_a_step_run_alone_is_checked_too(tmp_path: Path) -> None:
    project = built(tmp_path, 99, declared=False)
    flags = ("--workflow", "m.yaml", "-i", "task=x", *FLAGS)
    project.run("run-step", "implement", *flags).assert_exit(3)
    assert (tmp_path / "tries").read_text().count("x") == 4
    (tmp_path / "tries").write_text("x\n" * 200)
    project.run("run-step", "implement", *flags).assert_success()
