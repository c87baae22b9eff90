"""What a machine's state, its log and the `--json` documents say about where it stands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tests.acceptance.fakes import Stage, read_state
from tests.gates import waiting_at
from tests.machines.fakes import PAIR, ROUND, Scene, machine, other, said

# A §19.1.
FIELDS = [
    "sessionId", "recipeId", "step", "stepCount", "visitCount", "outcome", "error", "model",
    "promptLength", "responseLength", "durationMs", "costUsd",
]  # fmt: skip
GATED = """
    name: gated
    description: two stages and a gate
    version: 1.0.0
    stages:
      - name: draft
        steps: [{id: write, agent: writer, prompt: Write.}]
        approval: {required: true, prompt: "Ship it?"}
      - name: ship
        steps: [{id: send, agent: writer, prompt: Send.}]
"""


def write_gated(stage: Stage, name: str = "r.yaml") -> None:
    stage.write(name, GATED)
    stage.write(".orchestrate/agents/writer.md", "---\nname: writer\n---\nYou write.\n")


def test_truth_28_the_current_step_is_the_one_last_entered(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("broken"), said("complete"), said("fine"))
    state = scene.play(ROUND).state["machine"]

    assert state["currentStep"] == "review"
    assert (state["stepCount"], state["stepVisitCounts"]) == (3, {"review": 2, "fix": 1})


def test_truth_28_a_step_that_a_guardrail_refused_was_not_entered(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 3)
    state = scene.play(ROUND, exit_code=3).state["machine"]

    assert state["currentStep"] == "fix"
    assert state["stepVisitCounts"] == {"review": 3, "fix": 3}


def test_truth_28_the_current_step_after_a_restart_and_a_failure(tmp_path: Path) -> None:
    steps = {"first": {"done": "second"}, "second": {"again": "@trial", "done": "!over"}}
    scene = Scene(
        tmp_path,
        said("done"),
        said("again"),
        said("done"),
        {"exit": 1, "stderr": "no"},
        said("done"),
    )
    state = scene.play(machine(steps), exit_code=4, name="workflows/trial.yaml").state["machine"]
    assert (state["currentStep"], state["stepCount"], state["restarts"]) == ("second", 2, 1)

    scene.run("resume", "latest").assert_success()
    state = read_state(scene.runs_folder / "latest")["machine"]
    assert (state["currentStep"], state["stepCount"]) == ("second", 2)


def test_truth_28_retry_counts_are_kept_until_the_next_visit(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path,
        {"text": "no block"},
        said("broken"),
        {"text": "none"},
        said("complete"),
        said("fine"),
    )
    state = scene.play(ROUND).state["machine"]

    assert state["stepRetryCounts"] == {"fix": 1}, "the second visit of review began at nought"


def test_truth_28_retry_counts_hold_after_two_unreadable_answers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "no block"}, {"text": "nor here"})
    state = scene.play(PAIR, exit_code=2).state["machine"]

    assert state["stepRetryCounts"] == {"first": 1}
    assert state["currentStep"] == "first"


def test_truth_28_the_folder_of_a_command_is_absolute(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play("""
        version: "1.1"
        name: where
        steps:
          - {name: Where, command: [pwd]}
    """)

    step = played.step("Where")
    assert step["debug"]["cwd"] == str(stage.folder.resolve()) == step["output"].strip()


def log_fields(line: str) -> dict[str, str]:
    words = [word for word in shlex.split(line) if "=" in word]
    return dict(word.split("=", 1) for word in words)


def test_truth_28_every_line_of_a_machines_log_has_a_19_1s_fields(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path,
        {"text": "no block"},
        said("broken"),
        said("complete"),
        {"exit": 1, "stderr": "no"},
    )
    played = scene.play(ROUND, exit_code=4)

    lines = played.log("orchestrator.log").splitlines()
    assert {line.split()[2] for line in lines} >= {
        "[recipe:started]", "[step:started]", "[step:reminded]", "[step:outcome]",
        "[step:transition]", "[step:failed]", "[recipe:exited]",
    }  # fmt: skip
    for line in lines:
        fields = log_fields(line)
        assert [name for name in FIELDS if name not in fields] == [], line
        assert fields["recipeId"] == "trial"
    last = log_fields(lines[-1])
    assert (last["step"], last["visitCount"]) == ("review", "2")


def documents(stage: Stage, *arguments: str, code: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `run --json` and then `status --json` answer."""
    ran = stage.run("run", *arguments, "--json").assert_exit(code).json()
    status = stage.run("status", "latest", "--json").assert_success().json()
    assert isinstance(ran, dict)
    return ran, status


def test_truth_28_json_has_the_outcome_and_its_description(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), other("the build needs a licence"))
    scene.write("m.yaml", PAIR)

    for document in documents(scene, "m.yaml", code=0):
        assert document["outcome"] == "other"
        assert document["otherDescription"] == "the build needs a licence"
        assert document["stage"] is None
        assert document["steps"]["first"]["outcome"] == "done"
        assert document["steps"]["second"]["otherDescription"] == "the build needs a licence"


def test_truth_28_json_has_no_outcome_where_there_is_none(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"exit": 1, "stderr": "no"})
    scene.write("m.yaml", PAIR)

    for document in documents(scene, "m.yaml", code=4):
        assert (document["outcome"], document["otherDescription"]) == (None, None)


def test_truth_28_json_of_a_parked_run_names_the_stage(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    write_gated(stage)

    for document in documents(stage, "r.yaml", *waiting_at(stage, "draft"), code=6):
        assert (document["status"], document["stage"]) == ("paused", "draft")
        assert [gate["prompt"] for gate in document["approvals"]] == ["Ship it?"]
    stage.run("approve", "latest").assert_success()
    ended = stage.run("resume", "latest", "--json").assert_success().json()
    assert (ended["stage"], ended["approvals"]) == (None, [])


def test_truth_33_a_denied_run_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    write_gated(stage)
    stage.run("run", "r.yaml", *waiting_at(stage, "draft")).assert_exit(6)
    stage.run("deny", "latest", "--message", "not yet")

    status = stage.run("status", "latest", "--json").json()
    assert status["status"] == "failed"
    assert "denied" in status["reason"]
    assert json.loads((stage.runs_folder / "latest" / "state.json").read_text())["reason"]
