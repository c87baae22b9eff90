"""§5: a machine that gave up says so: in its last line, in JSON, and without a green tick."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.live.screens import display

HEAD = "label: M\ndescription: d\ninputs: {}\n"
CHECKED = f"""
id: m
{HEAD}initialStep: work
steps:
  work:
    prompt: Work.
    check: {{command: [make, test], rounds: 1}}
    outcomes: [complete, blocked, check-failed, other]
    onOutcome:
      complete: {{action: exit, reason: done}}
      blocked: {{action: exit, reason: blocked}}
      check-failed: {{action: exit, reason: tests-fail}}
      other: {{action: exit, reason: gave-up}}
"""
GATED = f"""
id: g
{HEAD}initialStep: test
steps:
  test:
    command: [make, test]
    exits: {{2: flaky}}
    onOutcome:
      passed: {{nextStep: ask}}
      failed: {{action: exit, reason: bad, status: failed}}
      flaky: {{action: exit, reason: flaky}}
  ask:
    approval: {{prompt: ok, timeout: 1h}}
    onOutcome:
      approved: {{action: exit, reason: done}}
      denied: {{action: exit, reason: denied}}
"""
FAILED_TWICE = "'work:check-1:complete': [failed]\n'work:check-2:complete': [failed]"
ENDS = [
    (CHECKED, "work: [{outcome: other, otherDescription: no disk}]", "other", "no disk",
     "completed: gave-up (work: other, no disk)"),
    (CHECKED, "work: [complete]", "complete", None, "completed: done"),
    (CHECKED, "'work:check-1:complete': [failed]", "complete", None, "completed: done"),
    (CHECKED, "work: [blocked]", "blocked", None, "completed: blocked (work: blocked)"),
    (CHECKED, FAILED_TWICE, "check-failed", None, "completed: tests-fail (work: check-failed)"),
    (GATED, "test: [failed]", "failed", None, "failed: bad (test: failed)"),
    (GATED, "test: [flaky]", "flaky", None, "completed: flaky (test: flaky)"),
    (GATED, "ask: [denied]", "denied", None, "completed: denied (ask: denied)"),
    (GATED, "ask: [approved]", "approved", None, "completed: done"),
]  # fmt: skip
REHEARSED = ("--backend", "rehearsal", "--script", "s.yaml")


@pytest.mark.parametrize(("text", "script", "outcome", "why", "last"), ENDS)
def test_the_outcome_is_named(
    tmp_path: Path, text: str, script: str, outcome: str, why: str | None, last: str
) -> None:
    project = Project(tmp_path, {"m.yaml": text, "s.yaml": script})
    told = project.run("run", "m.yaml", *REHEARSED).stderr
    assert f" {last}\n" in told
    standing = last.replace("completed:", "is completed:").replace("failed:", "has failed:")
    assert project.run("status").stdout.splitlines()[0].endswith(f" {standing}")
    told = project.run("report", "--format", "md").stdout
    assert f"**has {last}**" in told.replace("\\", "")
    ran = project.run("run", "m.yaml", *REHEARSED, "--json").json()
    status = project.run("status", "--json").json()
    for document in (ran, status):
        assert (document["outcome"], document["otherDescription"]) == (outcome, why)
    assert status["machine"]["currentStep"] in ("work", "test", "ask")


@pytest.mark.parametrize(("text", "script", "outcome", "why", "last"), ENDS)
def test_only_success_gets_a_tick(
    tmp_path: Path, text: str, script: str, outcome: str, why: str | None, last: str
) -> None:
    (tmp_path / "m.yaml").write_text(text)
    (tmp_path / "s.yaml").write_text(script)
    with display(tmp_path, "run", "m.yaml", *REHEARSED, size=(100, 40)) as seen:
        seen.finish()
        head = next(line for line in seen.shown.splitlines() if " total " in line)
    is_plain = "(" not in last
    assert head.startswith("✓") is is_plain, (head, outcome, why)


@pytest.mark.parametrize("caller", ["workflow", "recipe"])
def test_a_called_machine_that_gave_up_is_not_said_to_be_complete(
    tmp_path: Path, caller: str
) -> None:
    """Its exit completes the call (A), but nothing of its step looks like success."""
    called = {
        "workflow": 'version: "1.4"\nname: w\nsteps: [{name: Call, call: m.yaml}]\n',
        "recipe": "name: r\ndescription: d\nversion: 1.0.0\n"
        "steps: [{id: Call, type: recipe, recipe: m.yaml}]\n",
    }
    script = "work: [{outcome: other, otherDescription: no disk}]\n"
    project = Project(tmp_path, {"m.yaml": CHECKED, "c.yaml": called[caller], "s.yaml": script})
    told = project.run("run", "c.yaml", *REHEARSED).assert_success().stderr
    assert "Call/work: other, no disk" in told
