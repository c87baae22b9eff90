"""33: what a newcomer stumbled over in the first week."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from orchestrate.agents.claude import default_model
from orchestrate.state.model import Frame, RunState
from orchestrate.state.result import Approval
from orchestrate.state.runs import Run
from orchestrate.state.times import seconds_of
from orchestrate.testing import Project
from orchestrate.view.advice import next_commands
from orchestrate.view.place import Place
from orchestrate.view.run_view import RunView
from tests.cli.background import await_file, started
from tests.conftest import TimePasses
from tests.gates import waiting_at
from tests.machines.fakes import machine, said
from tests.truth.test_truth_17_denials import stage

ONE = machine({"work": {"done": "!committed", "prompt": "Do it."}})


def test_truth_33_the_model_that_is_passed_is_said(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done"), said("done"))
    told = scene.play(ONE, env={"ANTHROPIC_MODEL": ""}).result.stderr
    assert "agent claude-code, model sonnet, permissions bypass" in told
    assert "sonnet" in scene.ledger()[0].argv
    told = scene.play(ONE, env={"ANTHROPIC_MODEL": "claude-x"}).result.stderr
    assert "model claude-x," in told
    assert "claude-x" in scene.ledger()[1].argv
    shown = scene.run("run", "w.yaml", "--dry-run", "--backend", "codex")
    assert "agent codex, model its own, permissions bypass" in shown.assert_success().stderr


@pytest.mark.parametrize("name", ["settings.local.json", "settings.json", "user"])
def test_truth_33_claude_keeps_the_model_of_its_settings(tmp_path: Path, name: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".claude").mkdir(parents=True)
    (project / ".claude").mkdir(parents=True)
    path = home / ".claude/settings.json" if name == "user" else project / ".claude" / name
    environment = {"HOME": str(home)}
    assert default_model(environment, project) == "sonnet"
    path.write_text(json.dumps({"model": "opus"}), "utf-8")
    assert default_model(environment, project) == "opus"
    assert default_model({**environment, "ANTHROPIC_MODEL": "claude-x"}, project) == "claude-x"
    path.write_text("[half", "utf-8")
    assert default_model(environment, project) == "sonnet"


GATED = """
name: NAME
description: d
version: "1.0.0"
context: {seen: "", told: ""}
stages:
  - name: looking
    steps: [{id: look, agent: helper, prompt: Look.}]
    approval: {required: true, timeout: 600, prompt: "Is it good?"}
"""
HELPER = "---\nname: helper\ndescription: helps\n---\nHelp.\n"
PLAIN = 'version: "1.1"\nsteps:\n  - {name: A, command: ["true"]}\n'


def gated(folder: Path, *names: str) -> Project:
    files = {f"{name}.yaml": GATED.replace("NAME", name) for name in names}
    files |= {".orchestrate/agents/helper.md": HELPER, "plain.yaml": PLAIN}
    project = Project(folder, files)
    for name in names:
        project.run("run", f"{name}.yaml", *waiting_at(project, "looking")).assert_exit(6)
    project.run("run", "plain.yaml").assert_success()
    return project


def parked_in(project: Project) -> list[str]:
    waiting = project.run("approvals", "--json").assert_success().json()["approvals"]
    return [one["run_id"] for one in waiting]


def test_truth_33_without_a_run_the_only_one_that_waits_is_approved(tmp_path: Path) -> None:
    project = gated(tmp_path, "first")
    (waiting,) = parked_in(project)
    project.run("approve", "latest").assert_exit(2)
    resumed = project.run("resume").assert_success()
    assert f"orchestrate resume {waiting}" in resumed.stderr
    told = project.run("approve").assert_success().stdout
    assert f"stage 'looking' of run {waiting} is approved" in told
    assert told.endswith("the run has completed\n")


def test_truth_33_without_a_run_several_that_wait_are_listed(tmp_path: Path) -> None:
    project = gated(tmp_path, "first", "second")
    told = project.run("approve").assert_exit(2).stderr
    assert all(f"orchestrate approve {run_id}" in told for run_id in parked_in(project))
    assert len(parked_in(project)) == 2


def test_truth_33_a_cancelled_run_names_the_way_to_start_it_anew(tmp_path: Path) -> None:
    project = gated(tmp_path, "first")
    (waiting,) = parked_in(project)
    project.run("cancel", waiting).assert_success()
    told = project.run("resume", waiting).assert_exit(1).stdout
    command = f"orchestrate resume {waiting} --force-restart"
    assert command in told
    project.run(*command.split()[1:]).assert_exit(6)


SLOW = """
version: "1.1"
steps:
  - name: Slow
    command: [bash, -c, 'if [ -e begun ]; then exit 0; fi; touch begun; sleep 60']
"""


def test_truth_33_the_hours_between_stop_and_resume_are_no_work(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        process.send_signal(signal.SIGINT)
        process.wait()
    shown = project.run("status").stdout
    assert "Slow  stopped" in shown
    assert "exit 130" not in shown
    stopped_at = seconds_of(project.latest_state["updated_at"])
    time.sleep(2)
    assert "Slow: completed" in project.run("resume").assert_success().stderr
    step = project.latest_state["steps"]["Slow"]
    assert seconds_of(step["started_at"]) - stopped_at >= 2
    assert step["attempts"] == 2


def test_truth_33_a_parked_run_prints_the_question(tmp_path: Path) -> None:
    project = gated(tmp_path)
    project.write("g.yaml", GATED.replace("NAME", "g"))
    flags = (*waiting_at(project, "looking"), "--quiet")
    told = project.run("run", "g.yaml", *flags).assert_exit(6).stderr
    assert "  | Is it good?\n" in told


def test_truth_33_a_gate_that_the_clock_denied_says_so(
    tmp_path: Path, time_passes: TimePasses
) -> None:
    project = gated(tmp_path)
    project.write("g.yaml", GATED.replace("NAME", "g"))
    project.run("run", "g.yaml", *waiting_at(project, "looking")).assert_exit(6)
    assert "denied" not in project.run("status").stdout
    time_passes(601)
    assert "stage 'looking' was denied by timeout" in project.run("status").stdout


def test_truth_33_status_of_a_run_that_asks_shows_how_to_decide() -> None:
    run = Run("20261117T111111Z-abcdef", Path("/nowhere"))
    gate = Approval(
        "looking", "pending", "Go on?", "2026-11-17T11:11:11Z", None, "deny", "", "g", 1
    )
    state = RunState(
        run.id, "/nowhere", "w.yaml", "recipe", "1.3", "", {}, {}, "", 0.0, 0.0,
        Frame("", "w.yaml", ""), approvals=[gate],
    )  # fmt: skip
    view = RunView(run, state, None, "running", is_live=True)
    assert next_commands(view, Place(None, None)) == [
        f"orchestrate {verb} {run.id}" for verb in ("approve", "deny")
    ]


UNDEFINED = """
version: "1.1"
context: {whose: me}
steps:
  - name: A
    command: [sh, -c, "true"]
  - name: B
    command: [echo, "${context.who}", "${context.whose}"]
    when: {equals: {left: "${steps.A.exit_code}", right: "0"}}
"""
FAILING = """
version: "1.1"
steps:
  - {name: A, command: [sh, -c, "echo broken >&2; exit 3"]}
  - {name: B, command: [echo, "${context.who}"], when: {exists: no-such-file}}
"""


def test_truth_33_an_undefined_variable_leads_to_a_resume_with_its_value(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": UNDEFINED})
    told = project.run("run", "w.yaml").assert_exit(1).stderr
    (advice,) = (line for line in told.splitlines() if "go on:" in line)
    assert advice.endswith(" --context who=VALUE")
    assert " --context who=VALUE" in project.run("status").stdout
    slip = project.run("resume", "-i", "whoo=x").assert_exit(1).stderr
    assert "nothing here reads 'whoo' (did you mean 'who'?)" in slip
    shown = project.run("logs", "latest", "B", "--all").assert_success().stdout
    assert shown.count("--- B, not started: failed: undefined variable: ${context.who} (") == 2
    dotted = project.run("resume", "-i", "who.name=x").assert_exit(2).stderr
    assert "'who.name' has a dot" in dotted
    project.run(*advice.replace("VALUE", "x").split("orchestrate ")[1].split()).assert_success()


def test_truth_33_quiet_tells_errors_and_no_warnings(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": FAILING})
    assert "warning" in project.run("run", "w.yaml").assert_exit(1).stderr
    told = project.run("run", "w.yaml", "--quiet").assert_exit(1).stderr
    assert "A: failed with exit code 3" in told
    assert "| broken" in told
    assert "warning" not in told
    both = project.run("run", "w.yaml", "--quiet", "--verbose").assert_exit(2).stderr
    assert "--quiet and --verbose exclude each other" in both
