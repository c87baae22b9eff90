"""Flags, values and decisions that must reach a run which is resumed, started over or older."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import orchestrate
from orchestrate import RunSettings
from orchestrate.app.config.apply_flags import with_settings
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.state.events import StepFinished
from orchestrate.state.result import Costs, StepResult
from orchestrate.testing import Project
from tests.gates import waiting_at

AGENT = "---\nname: helper\ndescription: Helps\n---\nYou help.\n"
GATED = """
    name: gated
    description: Waits for an approval
    version: "1.0.0"
    stages:
      - name: first
        steps: [{id: one, agent: helper, prompt: One.}]
        approval: {required: true, prompt: "Go on?"}
      - name: second
        steps: [{id: two, agent: helper, prompt: Two.}]
"""
WORKFLOW = """
    version: "1.1"
    name: two
    steps:
      - {name: A, command: ["true"]}
      - {name: B, command: ["true"]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    files = {"g.yaml": GATED, "w.yaml": WORKFLOW, ".orchestrate/agents/helper.md": AGENT}
    project = Project(tmp_path, files)
    project.run("run", "g.yaml", *waiting_at(project, "first")).assert_exit(6)
    return project


@pytest.mark.parametrize("word", ["approve", "Approved", "maybe", None])
def test_a_word_that_is_no_decision_decides_nothing(project: Project, word: str) -> None:
    with pytest.raises(UsageError, match="'approved' or 'denied'"):
        orchestrate.decide(word, workspace=project.folder)  # type: ignore[arg-type]
    assert not (project.latest_run / "ballots").exists()
    project.run("approve").assert_success()


def test_flags_hold_for_a_run_that_starts_over(project: Project) -> None:
    told = project.run("resume", "--force-restart", "--permissions", "read-only").assert_exit(6)
    assert "is started over" in told.stderr
    settings = json.loads((project.latest_run / "events.jsonl").read_text().splitlines()[0])
    kept = settings["event"]["settings"]
    assert (kept["backend"], kept["permissions"]) == ("rehearsal", "read-only")
    project.run("resume", "--force-restart", "--max-restarts", "3").assert_exit(2)


def test_a_flag_of_resume_wins_over_the_configuration_of_the_start(project: Project) -> None:
    program = orchestrate.compile_file(project.folder / "g.yaml", workspace=project.folder)
    settings = RunSettings(max_parallel=6, defaults={"max_parallel": 2})
    assert main_plan(with_settings(program, settings)).limits.max_parallel == 6
    settings = RunSettings(defaults={"max_parallel": 2})
    assert main_plan(with_settings(program, settings)).limits.max_parallel == 2


def test_a_gate_of_an_older_run_can_be_decided(project: Project) -> None:
    path = project.latest_run / "plan.json"
    plan = json.loads(path.read_bytes())
    del plan["running"], plan["checksum"]
    path.write_text(json.dumps(plan | {"format": 1}))
    assert "plan.json is of an older format" in project.run("approve").assert_success().stderr
    project.run("resume").assert_success()


def test_a_cost_beyond_all_numbers_is_no_report() -> None:
    turn = StepResult(cost_usd=1e308)
    assert Costs().with_turn(turn).with_turn(turn).cost_usd == 1e308


def test_an_error_of_the_callers_own_work_does_not_stop_the_run(project: Project) -> None:
    def listen(event: object, _: object) -> None:
        if isinstance(event, StepFinished):
            orchestrate.compile_file("nope.yaml", workspace=project.folder)

    result = orchestrate.start(project.folder / "w.yaml", workspace=project.folder, on_event=listen)
    assert (result.status, result.exit_code) == ("completed", 0)
    assert any("on_event" in message for message in result.messages)


@pytest.mark.parametrize(
    "settings",
    [
        RunSettings(log_level="loud"),  # type: ignore[arg-type]
        RunSettings(on_error="bogus"),  # type: ignore[arg-type]
        RunSettings(silence_timeout=float("nan")),
        RunSettings(max_retries="x"),  # type: ignore[arg-type]
        RunSettings(max_retries=-1),
    ],
    ids=repr,
)
def test_settings_from_python_are_checked_as_flags_are(
    project: Project, settings: RunSettings
) -> None:
    before = project.latest_run.resolve()
    with pytest.raises(UsageError, match="cannot be"):
        orchestrate.start(project.folder / "w.yaml", workspace=project.folder, settings=settings)
    assert project.latest_run.resolve() == before


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_number_that_is_none_is_refused_in_a_variable(project: Project, value: str) -> None:
    told = project.run("run", "w.yaml", env={"ORCHESTRATE_SILENCE_TIMEOUT": value}).assert_exit(5)
    assert f"'silence_timeout' is malformed: '{value}'" in told.stderr


def test_a_rehearsal_can_answer_with_data(project: Project) -> None:
    project.write(
        "d.yaml",
        """
        name: data
        description: Uses a value of an answer
        version: "1.0.0"
        steps:
          - {id: look, agent: helper, prompt: Look., output: found}
          - {id: use, agent: helper, prompt: "Use {{found.word}}."}
    """,
    )
    project.write("s.yaml", 'look: [{text: \'{"word": "yes"}\'}]\n')
    flags = ("--backend", "rehearsal", "--script", "s.yaml")
    project.run("run", "d.yaml", *flags).assert_success()
    assert "Use yes." in project.run("logs", "latest", "use", "--prompt").stdout


def test_a_run_that_goes_on_as_started_advises_what_works(project: Project) -> None:
    project.write(
        "w.yaml", WORKFLOW.replace('["true"]}\n      - {name: B', '["false"]}\n      - {name: B')
    )
    project.run("run", "w.yaml").assert_exit(1)
    project.write("w.yaml", WORKFLOW)
    told = project.run("resume", "--as-started").assert_exit(1).stderr
    advised = next(line for line in told.splitlines() if "go on:" in line).split("orchestrate ")[1]
    assert advised.endswith("--as-started")
    project.run(*advised.split()).assert_exit(1)
