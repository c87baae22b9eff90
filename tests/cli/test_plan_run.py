"""`plan --run`: the plan of a run with the path that it took, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orchestrate.testing import Project

LOOPING = """
version: "1.1"
name: looping
steps:
  - name: Each
    for_each:
      items: [a, b, c]
      steps:
        - name: Do
          command: [sh, -c, 'test "${item}" != b']
          on: {failure: {goto: After}}
        - name: After
          command: ["true"]
  - name: Bad
    command: ["false"]
  - name: Never
    command: ["true"]
"""
MACHINE = """
id: review
label: Review
description: Until it is good
initialStep: write
steps:
  check:
    prompt: Check.
    outcomes: [good, bad, other]
    onOutcome:
      good: {action: exit, reason: all-good}
      bad: {nextStep: write}
      other: {action: exit, reason: user-provided-other}
  write:
    prompt: Write.
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: check}
      other: {action: exit, reason: user-provided-other}
"""
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("path"), {"w.yaml": LOOPING})
    made.run("run", "w.yaml").assert_exit(1)
    return made


def test_text_says_what_was_visited_and_taken(project: Project) -> None:
    told = project.run("plan", "--run", "latest").assert_success()
    assert told.stderr == ""
    lines = [line.strip() for line in told.stdout.splitlines()]
    for line in (
        f"* Do {TIMES}3",
        f"ok {TIMES}2, failed => After",
        f"ok {TIMES}3 => Each",
        "ok => Bad",
        "! Bad  (failed)",
        "ok -> Never",
        "failed => step 'Bad' failed",
        "Never",
        "ok -> completed",
    ):
        assert line in lines, line


def test_a_run_that_went_on_after_failures(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": LOOPING})
    project.run("run", "w.yaml", "--on-error", "continue").assert_exit(1)
    told = project.run("plan", "--run", "latest").assert_success().stdout
    lines = [line.strip() for line in told.splitlines()]
    for line in (
        "! Bad  (failed)",
        "ok, failed => Never",
        "* Never",
        "ok, failed => failed: some steps failed",
    ):
        assert line in lines, told
    assert "completed" not in told
    assert f"* Do {TIMES}3" in lines, "its failure was handled"
    svg = project.run("plan", "--run", "latest", "--format", "svg").assert_success().stdout
    space = "{http://www.w3.org/2000/svg}"
    groups = ET.fromstring(svg).findall(f"{space}g")
    looks = {group.findtext(f"{space}text"): group.get("class") for group in groups}
    assert (looks["Bad"], looks["Never"]) == ("failed", "visited")
    assert looks["failed: some steps failed"] == "failed"


def test_the_step_that_a_guardrail_stopped_has_failed(tmp_path: Path) -> None:
    script = {"write": ["complete", "complete"], "check": ["bad", "bad"]}
    project = Project(tmp_path, {"m.yaml": MACHINE, "script.json": json.dumps(script)})
    flags = ("--backend", "rehearsal", "--script", "script.json", "--max-visits", "2")
    project.run("run", "m.yaml", *flags).assert_exit(3)
    told = project.run("plan", "--run", "latest").assert_success().stdout
    assert f"! write {TIMES}2  (failed)" in told
    page = project.run("report", "latest", "--format", "html").assert_success().stdout
    assert '<g class="failed">' in page
    assert '<g class="waiting">' not in page


def test_drawings_mark_the_path(project: Project) -> None:
    mermaid = project.run("plan", "--run", "latest", "--format", "mermaid").assert_success().stdout
    assert "classDef failed" in mermaid
    assert "classDef unvisited" in mermaid
    assert "linkStyle " in mermaid
    dot = project.run("plan", "--run", "latest", "--format", "dot").assert_success().stdout
    assert 'label="Bad", shape=parallelogram, style=filled, fillcolor="#ffebe9"' in dot
    svg = project.run("plan", "--run", "latest", "--format", "svg").assert_success().stdout
    space = "{http://www.w3.org/2000/svg}"
    looks = {
        group.findtext(f"{space}text"): group.get("class")
        for group in ET.fromstring(svg).findall(f"{space}g")
    }
    assert (looks["Do"], looks["Bad"], looks["Never"]) == ("visited", "failed", "unvisited")


def test_json_has_the_plan_and_the_path(project: Project) -> None:
    told = project.run("plan", "--run", "latest", "--json").assert_success().json()
    visits = {step["node"]: (step["visits"], step["mark"]) for step in told["run"]["visits"]}
    assert visits == {"Each": (1, None), "Each/Do": (3, None), "Each/After": (3, None),
                      "Bad": (1, "failed")}  # fmt: skip
    assert told["main"] == "w.yaml"
    moves = [(m["node"], m["label"], m["count"]) for m in told["run"]["moves"]]
    assert ("Each/Do", "@failed", 1) in moves
    assert ("Each", "@ok", 1) in moves


def test_a_machine_that_came_back(tmp_path: Path) -> None:
    script = {"write": ["complete", "complete"], "check": ["bad", "good"]}
    project = Project(tmp_path, {"m.yaml": MACHINE, "script.json": json.dumps(script)})
    project.run("run", "m.yaml", "--backend", "rehearsal", "--script", "script.json")
    told = project.run("plan", "--run", "latest").assert_success().stdout
    first, second = told.index(f"* write {TIMES}2"), told.index(f"* check {TIMES}2")
    assert first < second, "in the order in which they are reached"
    assert "bad => write" in told
    assert "good => all-good" in told
    project.write("m.yaml", MACHINE.replace("Check.", "Check it."))
    changed = project.run("plan", "--run", "latest", "--format", "svg").assert_success()
    assert changed.stderr == "", "the plan is the run's own"
    ET.fromstring(changed.stdout)
    as_json = project.run("plan", "--run", "latest", "--json").assert_success().json()
    assert as_json["run"]["notes"] == []


def test_a_file_or_a_run_but_not_both(project: Project) -> None:
    assert "either FILE or --run" in project.run("plan").assert_exit(2).stderr
    project.run("plan", "w.yaml", "--run", "latest").assert_exit(2)
    project.run("plan", "--run", "20200101T000000Z-zzzzzz", "--json").assert_exit(2).json()
    name = project.latest_run.name
    project.run("plan", "--run", name[:-2], "--format", "svg").assert_success()
    svg = project.run("plan", "w.yaml", "--format", "svg").assert_success().stdout
    assert 'class="visited"' not in svg
