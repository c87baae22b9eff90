"""A run outlives the loss of its copies: decided, ended, reported and gone on with all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.durable import compact_json
from orchestrate.state.seal import seal_for
from orchestrate.testing import Project
from tests.gates import waiting_at

pytestmark = pytest.mark.faults

OUTER = """
name: gated
description: Calls a recipe whose path it works out
version: 1.0.0
context: {which: child}
steps:
  - {id: first, agent: reader, prompt: First.}
  - {id: call, type: recipe, recipe: "{{which}}.yaml"}
  - {id: later, agent: reader, prompt: Later.}
"""
CHILD = """
name: child
description: Is called
version: 1.0.0
stages:
  - name: one
    steps:
      - {id: inner, agent: reader, prompt: Hello.}
    approval: {required: true, prompt: "Go on?"}
  - name: two
    steps:
      - {id: more, agent: reader, prompt: Hello.}
"""
Damage = Callable[[Path], object]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A run that waits at a gate inside a recipe which it found on its way."""
    project = Project(tmp_path, {"w.yaml": OUTER, "child.yaml": CHILD})
    project.write(".orchestrate/agents/reader.md", "---\nname: reader\n---\nYou read.\n")
    project.run("run", "w.yaml", *waiting_at(project, "one")).assert_exit(6)
    return project


def late(root: Path) -> Path:
    (found,) = (root / "plans").glob("*.json")
    return found


def older(path: list[Any], value: Any) -> Damage:
    """The plan of a version that wrote no checksum, with one value replaced."""

    def damage(root: Path) -> None:
        data = json.loads((root / "plan.json").read_bytes())
        del data["checksum"]
        place = data
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        (root / "plan.json").write_text(json.dumps(data), "utf-8")

    return damage


def changed_word(root: Path) -> None:
    text = (root / "plan.json").read_text("utf-8")
    (root / "plan.json").write_text(text.replace("First.", "Worst."), "utf-8")


PLAN = ["program", "plans", 0]
LOST_PLANS: dict[str, Damage] = {
    "gone": lambda root: (root / "plan.json").unlink(),
    "junk": lambda root: (root / "plan.json").write_bytes(b"\xff{"),
    "a list": lambda root: (root / "plan.json").write_text("[]", "utf-8"),
    "another word": changed_word,
    "no plans": older(["program", "plans"], []),
    "no blocks": older([*PLAN, "blocks"], []),
    "blocks 4": older([*PLAN, "blocks"], 4),
    "unknown main": older(["program", "main"], "nosuch"),
    "schemas 4": older(["schemas"], 4),
    "agents list": older(["agents"], [1]),
    "format text": older(["format"], "2"),
    "a node 7": older([*PLAN, "blocks", 0, "nodes", 0], 7),
    "program null": older(["program"], None),
}
LOST_LATE: dict[str, Damage] = {
    "late gone": lambda root: late(root).unlink(),
    "late junk": lambda root: late(root).write_text("x", "utf-8"),
    "another's": lambda root: late(root).write_bytes((root / "plan.json").read_bytes()),
}
LOST = LOST_PLANS | LOST_LATE


@pytest.mark.parametrize("damage", LOST.values(), ids=LOST)
def test_a_lost_copy_is_made_again_by_resume(project: Project, damage: Damage) -> None:
    root = project.latest_run
    damage(root)
    project.run("status").assert_success()
    project.run("report", "--format", "md").assert_success()
    project.run("plan", "--run", "latest").assert_success()
    told = project.run("resume").assert_exit(6).stderr
    assert "was lost: it was rebuilt" in told or "it was rebuilt from the definition" in told
    again = project.run("resume").assert_exit(6).stderr
    assert "rebuilt" not in again
    project.run("approve", "-m", "fine", "--resume").assert_success()


@pytest.mark.parametrize("damage", LOST.values(), ids=LOST)
def test_a_gate_can_be_decided_whatever_became_of_the_copies(
    project: Project, damage: Damage
) -> None:
    root = project.latest_run
    damage(root)
    said = project.run("approve", "latest", "-m", "fine").assert_success()
    assert "stage 'one'" in said.stdout
    status = project.run("status", "--json").assert_success().json()
    assert status["reason"] == "stage 'one' is approved; waits to be resumed"
    project.run("deny", "latest").assert_exit(2)
    project.run("resume").assert_success()
    (gate,) = json.loads((root / "state.json").read_bytes())["approvals"]
    assert (gate["status"], gate["message"]) == ("approved", "fine")


def test_a_denial_without_a_plan_is_final(project: Project) -> None:
    root = project.latest_run
    (root / "plan.json").unlink()
    said = project.run("deny", "latest").assert_success()
    assert "the run has ended: stage 'one' was denied" in said.stdout
    status = project.run("status", "--json").json()
    assert (status["status"], status["reason"]) == ("failed", "stage 'one' was denied")
    refused = project.run("resume").assert_exit(1)
    assert "a denial is final" in refused.stderr + refused.stdout


@pytest.mark.parametrize("damage", LOST.values(), ids=LOST)
@pytest.mark.parametrize("without_state", [False, True])
def test_a_run_can_be_cancelled_whatever_became_of_it(
    project: Project, damage: Damage, without_state: bool
) -> None:
    root = project.latest_run
    damage(root)
    if without_state:
        for path in root.glob("state.json*"):
            path.unlink()
    project.run("cancel", "latest").assert_success()
    project.run("cancel", "latest").assert_success()
    (row,) = project.run("runs", "--json").assert_success().json()["runs"]
    assert row["status"] == "cancelled"


@pytest.mark.parametrize("end", [-300, 0])
def test_a_torn_journal(project: Project, end: int) -> None:
    """Nothing that was acted on is dropped in silence, and what is advised works."""
    root = project.latest_run
    content = (root / "events.jsonl").read_bytes()
    (root / "events.jsonl").write_bytes(content[:end])
    decided = project.run("approve").assert_success()
    advice = decided.stdout.splitlines()[-1]
    assert advice == f"go on with it: orchestrate resume {root.name} --repair"
    assert "counts once the run is repaired" in decided.stderr
    project.run("resume").assert_exit(5)
    project.run("resume", "latest", "--repair").assert_success()


def test_a_run_with_a_torn_journal_can_be_cancelled(project: Project) -> None:
    root = project.latest_run
    content = (root / "events.jsonl").read_bytes()
    (root / "events.jsonl").write_bytes(content[:300] + b"x" + content[301:])
    (root / "state.json").unlink()
    project.run("cancel", "latest").assert_success()
    assert project.run("status", "--json").assert_success().json()["status"] == "cancelled"


def test_the_journal_of_another_run_is_put_aside_by_cancel(project: Project) -> None:
    root = project.latest_run
    project.run("resume", "--force-restart").assert_exit(6)
    other = project.latest_run
    (other / "events.jsonl").write_bytes((root / "events.jsonl").read_bytes())
    told = project.run("cancel", "latest").assert_success().stderr
    assert "the damaged journal is kept as events.jsonl.damaged-1" in told
    assert project.run("status", "--json").assert_success().json()["status"] == "cancelled"
    assert (other / "events.jsonl.damaged-1").exists()


def test_a_plan_is_made_again_from_the_frozen_definition(project: Project) -> None:
    root = project.latest_run
    (root / "plan.json").unlink()
    project.write("w.yaml", OUTER.replace("Later.", "Never."))
    refused = project.run("resume").assert_exit(2)
    assert "--as-started" in refused.stderr
    told = project.run("resume", "--as-started").assert_exit(6)
    assert "plan.json is missing: it was rebuilt from definition.json" in told.stderr
    assert "Later." in (root / "plan.json").read_text("utf-8")
    project.run("approve").assert_success()
    project.run("resume", "--as-started").assert_success()


@pytest.mark.parametrize("what", ["documents", "agent"])
def test_a_plan_that_cannot_be_made_again_is_refused(project: Project, what: str) -> None:
    root = project.latest_run
    (root / "plan.json").unlink()
    project.write("w.yaml", OUTER.replace("Later.", "Never."))
    if what == "documents":
        (root / "definition.json").write_text("4", "utf-8")
    else:
        project.write(".orchestrate/agents/reader.md", "---\nname: reader\n---\nYou write.\n")
    refused = project.run("resume", "--as-started").assert_exit(5)
    assert f"the plan of run {root.name} is lost" in refused.stderr
    assert not (root / "plan.json").exists()


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_a_recipe_found_on_the_way_is_not_exchanged_in_silence(
    project: Project, change: str
) -> None:
    late(project.latest_run).unlink()
    if change == "gone":
        (project.folder / "child.yaml").unlink()
    else:
        project.write("child.yaml", CHILD.replace("Hello.", "Good day."))
    for flags in ((), ("--as-started",)):
        refused = project.run("resume", *flags)
        assert refused.exit_code == (5 if change == "gone" else 2)
        assert "child.yaml" in refused.stderr
    project.write("child.yaml", CHILD)
    project.run("resume").assert_exit(6)


@pytest.mark.parametrize("content", ["x", "4", "[]", '{"w.yaml": 4}', '{"w.yaml": {"stages": 1}}'])
def test_a_damaged_definition_hurts_nothing(project: Project, content: str) -> None:
    (project.latest_run / "definition.json").write_text(content, "utf-8")
    project.run("report", "--format", "md").assert_success()
    project.run("status").assert_success()
    project.run("logs", "latest", "--events").assert_success()
    project.run("resume").assert_exit(6)
    project.run("approve", "--resume").assert_success()


def test_a_run_of_a_version_before_0_2_is_read(project: Project) -> None:
    """It kept no plan, and its state lacks what only later versions count."""
    root = project.latest_run
    (root / "plan.json").unlink()
    document = json.loads((root / "state.json").read_bytes())
    del document["checksum"], document["engine"]["current"], document["engine"]["retry_counts"]
    lines = [
        b"  %b: %b" % (compact_json(name), compact_json(value)) for name, value in document.items()
    ]
    content = b"{\n" + b",\n".join(lines)
    (root / "state.json").write_bytes(content + seal_for(content))
    assert "stage 'one'" in project.run("status").assert_success().stdout
    project.run("wait", "--timeout", "1").assert_exit(6)
    project.run("approve").assert_success()
    project.run("resume").assert_success()
