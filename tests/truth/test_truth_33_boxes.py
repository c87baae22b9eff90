"""33: what people see of a gate, and of an agent that did nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.acceptance.fakes import Stage
from tests.gates import waiting_at

GATED = """
name: gated
description: A gate
version: "1.0.0"
context: {names: [ada, bob]}
stages:
  - name: reading
    steps: [{id: read, agent: helper, prompt: read}]
    approval: {required: true, timeout: 600, prompt: "Take {{names}}?"}
"""
HELPER = "---\nname: helper\ndescription: helps\n---\nHelp.\n"


def test_truth_33_to_deny_is_not_called_going_on(tmp_path: Path) -> None:
    project = Project(tmp_path, {"r.yaml": GATED, ".orchestrate/agents/helper.md": HELPER})
    project.run("run", "r.yaml", *waiting_at(project, "reading")).assert_exit(6)
    shown = project.run("status").stdout
    assert "  approve:    orchestrate approve 2" in shown
    assert "  deny:       orchestrate deny 2" in shown
    assert "go on:" not in shown
    report = project.run("report", "--format", "md").stdout
    assert "\nTake\n- ada\n- bob\n?\n" in report, "the question keeps its lines"


@pytest.mark.parametrize("kind", ["html", "md"])
def test_truth_33_an_agent_that_did_nothing_has_no_empty_box(tmp_path: Path, kind: str) -> None:
    stage = Stage(tmp_path)
    stage.program("claude", "print('it is broken', file=sys.stderr); raise SystemExit(3)", "2.1.0")
    stage.write("p.md", "Say something.")
    step = "{name: Ask, provider: claude, input_file: p.md}"
    stage.play(f'version: "1.1"\nname: w\nsteps: [{step}]\n', exit_code=1)
    report = stage.run("report", "--format", kind).stdout
    assert "it is broken" in report
    assert "What the agent did" not in report
    assert "<pre></pre>" not in report
