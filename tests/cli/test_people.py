"""A person at the terminal of a run: asked about failures, and called by name."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from orchestrate.testing import Project
from tests.cli.conftest import ROOT
from tests.gates import waiting_at
from tests.recipes.terminal import at_terminal

FAILING = """\
version: "1.1"
steps:
  - {name: Bad, command: [sh, -c, "echo why it failed >&2; test -e go"]}
  - {name: Next, command: [echo, hello]}
"""
QUESTION = "[r]etry, [c]ontinue or [s]top? "
GATED = """\
name: gated
description: One gate
version: 1.0.0
stages:
  - name: planning
    steps: [{id: a, agent: helper, prompt: Plan.}]
    approval: {required: true, prompt: ok?}
"""


def test_a_failure_is_shown_before_it_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(FAILING)
    words = ("run", "w.yaml", "--no-live", "--on-error", "interactive")
    with at_terminal(tmp_path, {"PYTHONPATH": str(ROOT)}, *words) as terminal:
        shown = terminal.read_until(QUESTION)
        assert "Step 'Bad' failed: " in shown
        assert "    | why it failed\n" in shown
        for word in ("maybe", "", "cancel"):
            terminal.type(f"{word}\n")
            told = terminal.read_until(QUESTION)
            assert "type r to try the step again, c to go on without it, or s to stop" in told
        (tmp_path / "go").touch()
        terminal.type("retry\n")
        assert terminal.wait() == 0
        assert "[2/2] Next: completed" in terminal.shown


def test_without_user_the_system_knows_who_decides(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("r.yaml", GATED)
    project.write(".orchestrate/agents/helper.md", "---\nname: helper\n---\nYou help.\n")
    nobody = {"USER": "", "LOGNAME": ""}
    flags = waiting_at(project, "planning")
    assert project.run("run", "r.yaml", *flags, env=nobody).exit_code == 6
    name = pwd.getpwuid(os.getuid()).pw_name
    assert project.run("approve", "latest", env=nobody).exit_code == 0
    shown = project.run("approve", "latest", env=nobody).stderr
    assert f"was approved already, by {name} at " in shown
