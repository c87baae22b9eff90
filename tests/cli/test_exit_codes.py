"""What `run` exits with, for each end that a dialect has, and the kind that its journal keeps.

Ends that need a signal, a lost program or a full disk are tested where those are made: 130 and 143
in `tests/promises/test_signals.py`, 6 after a loss in `tests/promises/test_adoption.py`, 5 for a
disk in `tests/promises/test_disk_errors.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.exits import ENDS, EndKind
from orchestrate.testing import Project, Result
from tests.gates import waiting_at

MACHINE = """
id: tidy
label: Tidy
description: d
guardrails: {maxStepVisits: 2, maxTotalSteps: 5}
initialStep: clean
steps:
  clean:
    prompt: Clean.
    outcomes: [done, again, round, other]
    onOutcome:
      done: {action: exit, reason: all-good}
      again: {nextStep: clean}
      round: {action: restart-new-session, recipeId: tidy}
      other: {action: exit, reason: gave-up}
"""
RECIPE = """
name: r
description: d
version: 1.0.0
"""
WORKFLOW = """
version: "1.1"
name: w
steps:
"""


STEP = "{id: one, agent: helper, prompt: Hi}"


def recipe(step: str = STEP, more: str = "") -> str:
    return f"{RECIPE}{more}steps:\n  - {step}\n"


def run(project: Project, text: str, *flags: str) -> Result:
    project.write("workflows/x.yaml", text)
    return project.run("run", "workflows/x.yaml", *flags)


def kind_of(project: Project) -> Any:
    """The kind of the newest run's end."""
    state = (project.folder / ".orchestrate/runs/latest/state.json").read_text("utf-8")
    return json.loads(state)["engine"]["ending"][3]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    helper = "---\nname: helper\ndescription: d\n---\nHelp.\n"
    return Project(tmp_path, {".orchestrate/agents/helper.md": helper})


@pytest.mark.parametrize(
    ("script", "flags", "kind"),
    [
        ("[done]", (), "exit"),
        ("[{text: Nothing.}]", (), "orchestration-error"),
        ("[again]", (), "guardrail-visits"),
        ("[again]", ("--max-visits", "9"), "guardrail-steps"),
        ("[round]", ("--max-restarts", "1"), "guardrail-restarts"),
    ],
)
def test_a_machine(project: Project, script: str, flags: tuple[str, ...], kind: EndKind) -> None:
    project.write("script.yaml", f"clean: {script}")
    played = ("--backend", "rehearsal", "--script", "script.yaml")
    run(project, MACHINE, *played, *flags).assert_exit(ENDS[kind].code)
    assert kind_of(project) == kind


REPLAY = ("--backend", "replay", "--recording", "latest")


def test_a_machine_whose_agent_fails(project: Project) -> None:
    run(project, MACHINE, "--backend", "rehearsal").assert_success()
    run(project, MACHINE.replace("Clean.", "Tidy."), *REPLAY).assert_exit(ENDS["agent"].code)
    assert kind_of(project) == "agent"


GATE = f"""
stages:
  - name: plan
    steps: [{STEP}]
    approval: {{required: true, prompt: 'Go?'}}
  - name: ship
    steps: [{STEP.replace("one", "two")}]
"""
LOOP = STEP.replace("}", ", foreach: '{{all}}', max_iterations: 2}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (recipe(), "completed"),
        (RECIPE + GATE, "gate"),
        (recipe(LOOP, "context: {all: [1, 2, 3]}\n"), "limit"),
    ],
)
def test_a_recipe(project: Project, text: str, kind: EndKind) -> None:
    flags = waiting_at(project, "plan") if kind == "gate" else ("--backend", "rehearsal")
    run(project, text, *flags).assert_exit(ENDS[kind].code)
    assert kind_of(project) == kind


@pytest.mark.parametrize(
    ("treatment", "kind"), [("on_error: fail", "failed"), ("on_error: skip_remaining", "partial")]
)
def test_a_recipe_whose_agent_fails(project: Project, treatment: str, kind: EndKind) -> None:
    run(project, recipe(), "--backend", "rehearsal").assert_success()
    changed = recipe(STEP.replace("Hi}", f"Hello, {treatment}}}"))
    run(project, changed, *REPLAY).assert_exit(ENDS[kind].code)
    assert kind_of(project) == kind


def test_a_gate_from_outside(project: Project) -> None:
    run(project, RECIPE + GATE, *waiting_at(project, "plan")).assert_exit(ENDS["gate"].code)
    project.run("approve", "latest").assert_success()
    assert kind_of(project) == "approved"
    run(project, RECIPE + GATE, *waiting_at(project, "plan")).assert_exit(ENDS["gate"].code)
    project.run("deny", "latest").assert_success()
    assert kind_of(project) == "denied"
    project.run("resume", "latest").assert_exit(ENDS["denied"].code)


@pytest.mark.parametrize(
    ("steps", "flags", "kind"),
    [
        ("  - {name: One, command: ['true']}", (), "completed"),
        ("  - {name: One, command: ['false']}", (), "failed"),
        ("  - {name: One, command: ['false']}", ("--on-error", "continue"), "failures"),
    ],
)
def test_a_workflow(project: Project, steps: str, flags: tuple[str, ...], kind: EndKind) -> None:
    run(project, f"{WORKFLOW}{steps}\n", *flags).assert_exit(ENDS[kind].code)
    assert kind_of(project) == kind


def test_a_cancelled_run(project: Project) -> None:
    run(project, RECIPE + GATE, *waiting_at(project, "plan"))
    project.run("cancel", "latest").assert_success()
    assert kind_of(project) == "cancelled"
    project.run("wait", "latest").assert_exit(ENDS["cancelled"].code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MACHINE.replace("initialStep: clean", "initialStep: cleen"), 1),
        (recipe("{id: one, agnt: helper, prompt: Hi}"), 2),
        (f"{WORKFLOW}  - {{name: One, comand: ['true']}}\n", 2),
    ],
)
def test_an_invalid_definition(project: Project, text: str, code: int) -> None:
    run(project, text).assert_exit(code)
    project.run("validate", "workflows/x.yaml").assert_exit(code)
