"""The commands that a stopped run is told with: each of them does what it is offered for."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.test_approvals import command, make_project
from tests.machines.fakes import ROUND, Scene, said

GOES_ON = """\
version: "1.1"
steps:
  - {name: Good, command: ["true"]}
  - {name: Bad one, command: [sh, -c, 'echo why; exit 3']}
  - {name: Last, command: ["true"]}
"""


def advised(text: str, heading: str) -> list[list[str]]:
    """The commands after `look:` or `go on:`, without `orchestrate`."""
    found = re.findall(rf"^  {heading} +orchestrate (.*)$", text, re.MULTILINE)
    return [shlex.split(line) for line in found]


@pytest.mark.parametrize("flag", ["--max-visits", "--max-steps"])
def test_the_way_past_a_guardrail_leads_past_it(tmp_path: Path, flag: str) -> None:
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 2, said("fine"))
    limit = {"--max-visits": "2", "--max-steps": "4"}[flag]
    played = scene.play(ROUND, flag, limit, exit_code=3)
    told = advised(played.result.stderr, "go on:")
    assert told == [["resume", played.state["run_id"], flag, str(2 * int(limit))]]
    shown = scene.run("status", "latest").assert_success().stdout
    assert advised(shown, "go on:") == told
    scene.run(*told[0]).assert_success()


def test_the_way_past_too_many_restarts(tmp_path: Path) -> None:
    text = ROUND.replace("nextStep: review", "action: restart-new-session, recipeId: trial")
    assert "restart-new-session" in text
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 2, said("fine"))
    played = scene.play(text, "--max-restarts", "1", exit_code=3)
    told = advised(played.result.stderr, "go on:")
    assert told == [["resume", played.state["run_id"], "--max-restarts", "2"]]
    shown = scene.run("status", "latest").assert_success().stdout
    assert advised(shown, "go on:") == told
    scene.run(*told[0]).assert_success()


def test_status_shows_visits_against_the_guardrail(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 3)
    scene.play(ROUND, "--max-steps", "9", exit_code=3)
    lines = scene.run("status", "latest").assert_success().stdout.splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("    ")] == [
        ["visit", "3/3"], ["visit", "3/3"],
    ]  # fmt: skip
    assert any("6/9 steps" in line for line in lines)
    view = scene.run("status", "latest", "--json").json()
    assert view["machine"]["limits"]["maxStepVisits"] == 3


def test_a_run_that_went_on_to_its_end_offers_no_resume(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": GOES_ON})
    ended = project.run("run", "w.yaml", "--on-error", "continue").assert_exit(1)
    shown = project.run("status", "latest").assert_success().stdout
    run_id = project.latest_run.name
    for told in (ended.stderr, shown):
        assert advised(told, "go on:") == []
        assert advised(told, "look:") == [["logs", run_id, "Bad one"]]
    assert "why" in project.run("logs", run_id, "Bad one").assert_success().stdout
    waited = project.run("wait", "latest", "--json").assert_exit(1)
    assert waited.json()["next"] == []


def test_run_and_status_name_the_same_step(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": GOES_ON})
    ended = project.run("run", "w.yaml").assert_exit(1)
    shown = project.run("status", "latest").assert_success().stdout
    run_id = project.latest_run.name
    assert (
        advised(ended.stderr, "look:") == advised(shown, "look:") == [["logs", run_id, "Bad one"]]
    )
    assert advised(ended.stderr, "go on:") == advised(shown, "go on:") == [["resume", run_id]]


def test_a_step_in_a_loop_is_named_with_its_item(tmp_path: Path) -> None:
    loop = """
        version: "1.1"
        steps:
          - name: Each
            for_each:
              items: [a, b]
              steps: [{name: Do, command: [sh, -c, 'echo "${item}"; test "${item}" = a']}]
    """
    project = Project(tmp_path, {"w.yaml": loop})
    ended = project.run("run", "w.yaml").assert_exit(1)
    (look,) = advised(ended.stderr, "look:")
    assert look[2] == "Each[1]/Do"
    assert project.run(*look).assert_success().stdout.splitlines()[-1] == "b"


MACHINE = """
    id: {id}
    label: One
    description: A machine with one step
    initialStep: one
    steps:
      one:
        {does}
        outcomes: [{good}, {bad}]
        onOutcome:
          {good}: {{action: exit, reason: fine}}
          {bad}: {{action: exit, reason: bad, status: failed}}
"""


def machine_of(does: str, good: str, bad: str, name: str = "main") -> str:
    return MACHINE.format(id=name, does=does, good=good, bad=bad)


def test_of_a_failed_call_the_step_that_printed_something_is_shown(tmp_path: Path) -> None:
    """Two calls deep; the call itself prints nothing."""
    leaf = machine_of('command: "echo the cause; exit 1"', "passed", "failed", "leaf")
    middle = machine_of("call: leaf.yaml", "completed", "failed", "middle")
    files = {"leaf.yaml": leaf, "middle.yaml": middle}
    files["main.yaml"] = machine_of("call: middle.yaml", "completed", "failed")
    project = Project(tmp_path, files)
    ended = project.run("run", "main.yaml").assert_exit(1)
    (look,) = advised(ended.stderr, "look:")
    assert look[2:] == ["one/one/one"]
    assert "the cause" in project.run(*look).assert_success().stdout
    assert advised(project.run("status").stdout, "look:") == [look]


def test_of_a_failed_check_the_last_one_is_shown(tmp_path: Path) -> None:
    does = 'prompt: Work.\n        check: {command: "echo the cause; exit 1", rounds: 1}'
    text = machine_of(does, "complete", "check-failed")
    text = text.replace("check-failed]", "check-failed, other]")
    text += "          other: {action: exit, reason: other}\n"
    project = Project(tmp_path, {"main.yaml": text, "script.yaml": "one: [complete]\n"})
    flags = ("--backend", "rehearsal", "--rehearse-commands", "--script", "script.yaml")
    ended = project.run("run", "main.yaml", *flags).assert_exit(1)
    (look,) = advised(ended.stderr, "look:")
    assert look[2:] == ["one:check-2"]
    assert "the cause" in project.run(*look).assert_success().stdout


def test_of_a_failure_by_choice_the_step_is_shown_that_chose_it(tmp_path: Path) -> None:
    """Not the one before it, whose failure had a way to go on."""
    text = """
        id: main
        label: Two
        description: What follows a failure gives up
        initialStep: first
        steps:
          first:
            command: "echo not the cause; exit 1"
            onOutcome:
              passed: {action: exit, reason: fine}
              failed: {nextStep: then}
          then:
            command: "echo the cause"
            onOutcome:
              passed: {action: exit, reason: gave-up, status: failed}
              failed: {action: exit, reason: bad, status: failed}
    """
    project = Project(tmp_path, {"main.yaml": text})
    ended = project.run("run", "main.yaml").assert_exit(1)
    (look,) = advised(ended.stderr, "look:")
    assert look[2:] == ["then"]
    assert advised(project.run("status").stdout, "look:") == [look]
    over = project.run("resume", "latest").assert_exit(1).stdout
    (redo,) = re.findall(r"^to do 'then' again: orchestrate (.*)$", over, re.MULTILINE)
    again = project.run(*shlex.split(redo)).assert_exit(1).stderr
    assert "reuse 1, run 1: then (is to be done again)" in again


def test_a_denied_run_offers_nothing_that_is_not_there(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    command(project, "run", "w.yaml", code=6)
    command(project, "deny", "latest")
    shown = command(project, "status", "latest").stdout
    assert "has failed" in shown
    assert advised(shown, "look:") == advised(shown, "go on:") == []


def test_hints_name_the_run(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": GOES_ON})
    project.run("run", "w.yaml").assert_exit(1)
    root = project.latest_run
    text = (tmp_path / "w.yaml").read_text("utf-8")
    project.write("w.yaml", text + "processed_dir: other\n")
    changed = project.run("resume", "latest").assert_exit(2)
    assert f"orchestrate resume {root.name} --force-restart" in changed.stderr
    project.write("w.yaml", text)
    journal = (root / "events.jsonl").read_bytes().splitlines(keepends=True)
    (root / "events.jsonl").write_bytes(b"".join([journal[0], b"nonsense\n", *journal[2:]]))
    (root / "state.json").write_bytes(b"{")
    damaged = project.run("resume", "latest")
    assert damaged.exit_code != 0
    assert f"orchestrate resume {root.name} --repair" in damaged.stderr


def test_a_workspace_that_was_moved_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    project = Project(tmp_path / "here", {"w.yaml": GOES_ON})
    project.run("run", "w.yaml").assert_exit(1)
    moved = Project((tmp_path / "here").rename(tmp_path / "there"))
    shown = moved.run("status").assert_exit(0).stdout
    assert advised(shown, "go on:") == [["resume", moved.latest_run.name]]
    moved.run("resume", "latest").assert_exit(1)
