"""Readers of a run need neither the compiler nor the files: the run keeps its plan as it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import MACHINE
from tests.gates import waiting_at
from tests.structure.modules import within
from tests.structure.test_startup import loaded_by

LOOP = """
version: "1.1"
steps:
  - name: Each
    for_each:
      items: [a, b]
      steps:
        - name: Say
          command: [echo, "${item}"]
  - name: Last
    command: [sh, -c, "test ! -e stop"]
"""
GATED = """
name: gated
description: Calls a recipe whose path it works out
version: 1.0.0
context: {which: none}
stages:
  - name: one
    steps:
      - {id: call, type: recipe, recipe: "{{which}}.yaml"}
    approval: {required: true, prompt: "Go on?"}
  - name: two
    steps:
      - {id: later, agent: reader, prompt: Later.}
"""
CHILD = """
name: child
description: Is called
version: 1.0.0
steps:
  - {id: inner, agent: reader, prompt: Hello.}
"""


def only_the_run_is_left(project: Project) -> Path:
    """Delete every definition, and the state file, so that the plan is needed to fold the journal;
    the folder of the newest run."""
    for path in project.folder.rglob("*.yaml"):
        path.unlink()
    root = project.latest_run
    (root / "state.json").unlink()
    (root / "definition.json").unlink()
    return root


def read_only(project: Project, *arguments: str) -> None:
    """The command succeeds and has loaded nothing that reads definitions."""
    loaded = loaded_by(project.folder, *arguments)
    assert "orchestrate.state.plan_file" in loaded
    for module in loaded:
        for reader in ("orchestrate.source", "orchestrate.dialects", "ruamel"):
            assert not within(module, reader), (arguments, module)
        assert module != "orchestrate.compile", arguments


def status_of(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = project.run("status", "latest", "--json").assert_success().json()
    return found


def test_a_workflow_with_a_loop(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": LOOP})
    project.run("run", "w.yaml").assert_success()
    before = status_of(project)
    only_the_run_is_left(project)
    for command in ("status", "report", "attach"):
        read_only(project, command, "latest", *(["--format", "md"] if command == "report" else []))
    assert status_of(project)["steps"] == before["steps"]


def test_a_machine_with_the_flags_of_run_and_of_resume(tmp_path: Path) -> None:
    project = Project(tmp_path, {"tidy.yaml": MACHINE})
    flags = ("--backend", "rehearsal", "--max-visits", "7", "--max-steps", "1")
    project.run("run", "tidy.yaml", *flags).assert_exit(3)
    assert status_of(project)["machine"]["limits"]["maxStepVisits"] == 7
    project.run("resume", "latest", "--max-steps", "30").assert_success()
    root = only_the_run_is_left(project)
    for command in ("status", "attach"):
        read_only(project, command, root.name)
    limits = status_of(project)["machine"]["limits"]
    assert (limits["maxStepVisits"], limits["maxTotalSteps"]) == (7, 30)


def test_a_recipe_with_a_gate_and_a_call_by_a_template(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": GATED, "child.yaml": CHILD})
    project.write(".orchestrate/agents/reader.md", "---\nname: reader\n---\nYou read.\n")
    flags = (*waiting_at(project, "one"), "-i", "which=child")
    project.run("run", "w.yaml", *flags).assert_exit(6)
    root = only_the_run_is_left(project)
    read_only(project, "status", "latest")
    read_only(project, "report", "latest", "--format", "md")
    assert "inner" in project.run("plan", "--run", "latest").assert_success().stdout
    read_only(project, "approve", root.name, "-m", "fine")
    assert status_of(project)["reason"] == "stage 'one' is approved; waits to be resumed"


def test_a_single_step_is_read_as_it_was_reduced(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": LOOP})
    project.run("run-step", "Each", "--workflow", "w.yaml").assert_success()
    only_the_run_is_left(project)
    read_only(project, "status", "latest")
    assert list(status_of(project)["steps"]) == ["Each"]


def test_a_masked_plan_can_be_looked_at(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": LOOP.replace("test ! -e stop", "echo sesame-sesame")})
    project.run("run", "w.yaml", env={"DOOR_TOKEN": "sesame-sesame"}).assert_success()
    root = only_the_run_is_left(project)
    assert json.loads((root / "plan.json").read_bytes())["is_masked"]
    assert status_of(project)["status"] == "completed"
    assert "Last" in project.run("plan", "--run", "latest").assert_success().stdout


@pytest.mark.parametrize("form", ["missing", "older"])
def test_a_run_of_an_older_layout_is_told_as_far_as_it_goes(tmp_path: Path, form: str) -> None:
    project = Project(tmp_path, {"w.yaml": LOOP})
    project.run("run", "w.yaml").assert_success()
    root = project.latest_run
    if form == "missing":
        (root / "plan.json").unlink()
    else:
        kept = json.loads((root / "plan.json").read_bytes())
        del kept["checksum"]
        (root / "plan.json").write_text(json.dumps(kept | {"format": 1}), "utf-8")
    assert status_of(project)["steps"]["Each"]["completed"] == 2
    said = project.run("plan", "--run", "latest").assert_success().stderr
    assert f"the plan of run {root.name} is not kept: plan.json is" in said
    (root / "state.json").unlink()
    refused = project.run("status", "latest").assert_exit(5)
    assert "plan.json is" in refused.stderr
    assert "older orchestrate" in refused.stderr
