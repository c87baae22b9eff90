"""Commands and gates as steps of a machine, and exits that say that the run has failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.acceptance.test_hostile_values import PAYLOADS

LOOP = """
    id: mend
    label: Mend
    description: Test, mend, ask
    inputs: {name: world}
    initialStep: test
    steps:
      test:
        command: "echo out {{name}}; echo err >&2; test -e mended"
        timeout: 1m
        onOutcome:
          passed: {nextStep: approve}
          failed: {nextStep: fix}
      fix:
        prompt: "{{steps.test.exit_code}} {{steps.test.outcome}}: {{steps.test.output}}"
        outcomes: [complete, other]
        onOutcome:
          complete: {nextStep: mend}
          other: {action: exit, reason: user-provided-other, status: failed}
      mend:
        command: [touch, mended]
        onOutcome:
          passed: {nextStep: test}
          failed: {action: exit, reason: cannot-mend, status: failed}
      approve:
        approval: {prompt: "Greet {{name}}?", timeout: 24h}
        onOutcome:
          approved: {nextStep: greet}
          denied: {action: exit, reason: denied, status: failed}
      greet:
        command: [echo, "{{name}}: {{steps.approve.message}} ({{steps.approve.outcome}})"]
        onOutcome:
          passed: {action: exit, reason: greeted}
          failed: {action: exit, reason: no-voice, status: failed}
    """
REHEARSE = ("--backend", "rehearsal", "--rehearse-commands")
WAITS = (*REHEARSE, "--script", "waits.yaml")


def gates_of(project: Project) -> list[dict[str, Any]]:
    gates: list[dict[str, Any]] = project.latest_state["engine"]["approvals"]
    return gates


def test_a_failing_command_is_an_outcome_that_prompts_can_read(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": LOOP, "waits.yaml": "approve: [waits]"})
    project.run("run", "m.yaml", "you", *WAITS).assert_exit(6)
    prompt = (tmp_path / ".orchestrate/runs/latest/logs/fix.prompt.txt").read_text()
    assert prompt.startswith("1 failed: out you\nerr\n")
    test = project.latest_state["steps"]["test"]
    assert (test["status"], test["outcome"], test["exit_code"]) == ("completed", "passed", 0)
    assert gates_of(project)[0]["prompt"] == "Greet you?"


def test_an_approved_gate_leads_on_with_its_message(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": LOOP, "waits.yaml": "approve: [waits]"})
    project.run("run", "m.yaml", *WAITS).assert_exit(6)
    project.run("approve", "latest", "--message", "be kind").assert_success()
    project.run("resume", "latest").assert_success()
    assert project.latest_state["steps"]["greet"]["output"] == "world: be kind (approved)"
    assert project.latest_state["status"] == "completed"


def test_a_denied_gate_is_an_outcome_too(tmp_path: Path) -> None:
    """Here it exits as failed; nothing is left to resume."""
    project = Project(tmp_path, {"m.yaml": LOOP, "waits.yaml": "approve: [waits]"})
    project.run("run", "m.yaml", *WAITS).assert_exit(6)
    project.run("deny", "latest").assert_success()
    assert (project.latest_state["status"], project.latest_state["reason"]) == ("failed", "denied")
    assert "nothing left to do" in project.run("resume", "latest").assert_exit(1).stdout


def test_a_denied_gate_may_lead_back_to_work(tmp_path: Path) -> None:
    """The second visit of the gate is a decision of its own."""
    text = LOOP.replace(
        "denied: {action: exit, reason: denied, status: failed}", "denied: {nextStep: fix}"
    )
    project = Project(tmp_path, {"m.yaml": text, "waits.yaml": "approve: [waits]"})
    project.run("run", "m.yaml", *WAITS).assert_exit(6)
    project.run("deny", "latest").assert_success()
    assert project.latest_state["reason"] == "step 'approve' is denied; waits to be resumed"
    project.run("resume", "latest").assert_exit(6)
    project.run("approve", "latest").assert_success()
    project.run("resume", "latest").assert_success()
    assert [gate["status"] for gate in gates_of(project)] == ["denied", "approved"]


def test_a_step_that_only_a_denial_reaches_is_reached(tmp_path: Path) -> None:
    text = LOOP.replace(
        "denied: {action: exit, reason: denied, status: failed}", "denied: {nextStep: sulk}"
    )
    sulk = """
      sulk:
        command: ["true"]
        onOutcome:
          passed: {action: exit, reason: sulked}
          failed: {action: exit, reason: no-mood, status: failed}
    """
    project = Project(tmp_path, {"m.yaml": text.rstrip() + sulk})
    assert "valid machine" in project.run("validate", "m.yaml").assert_success().stdout


def test_a_denial_may_be_the_way_out(tmp_path: Path) -> None:
    """`approved` leads back to the gate; what ends the run is `denied`."""
    text = LOOP.replace("approved: {nextStep: greet}", "approved: {nextStep: approve}")
    project = Project(tmp_path, {"m.yaml": text[: text.index("      greet:")]})
    assert "valid machine" in project.run("validate", "m.yaml").assert_success().stdout


ONE = """
    id: one
    label: One
    description: One command
    inputs: {{value: ""}}
    initialStep: work
    steps:
      work:
        command: {command}
        {more}
        onOutcome:
          passed: {{action: exit, reason: passed}}
          failed: {{action: exit, reason: failed, status: failed}}
          flaky: {{action: exit, reason: flaky}}
    """


@pytest.mark.parametrize(
    ("command", "more", "code", "reason"),
    [
        ("[sh, -c, exit 0]", "exits: {2: flaky}", 0, "passed"),
        ("[sh, -c, exit 2]", "exits: {2: flaky}", 0, "flaky"),
        ("[sh, -c, exit 3]", "exits: {2: flaky}", 1, "failed"),
        ("[no-such-program]", "exits: {2: flaky}", 1, "failed"),
        ("[no-such-program]", 'exits: {2: failed, "*": flaky}', 1, "failed"),
        ("[sleep, '60']", "exits: {2: flaky}\n        timeout: 0.2s", 1, "failed"),
        ("exit 2 # a script", 'exits: {"*": flaky, 1: failed}', 0, "flaky"),
    ],
)
def test_an_exit_code_is_an_outcome(
    tmp_path: Path, command: str, more: str, code: int, reason: str
) -> None:
    """A timeout or a program that is not there is `failed`, whatever `exits` says of the rest."""
    project = Project(tmp_path, {"m.yaml": ONE.format(command=command, more=more)})
    project.run("run", "m.yaml").assert_exit(code)
    assert project.latest_state["reason"] == reason


def test_an_exit_code_with_a_name_of_its_own_is_not_told_as_a_failure(tmp_path: Path) -> None:
    project = Project(
        tmp_path, {"m.yaml": ONE.format(command="[sh, -c, exit 2]", more="exits: {2: flaky}")}
    )
    for more in ([], ["--verbose"]):
        told = project.run("run", "m.yaml", *more).assert_success().stderr
        assert "failed" not in told
        assert "flaky" in told
    failed = ONE.format(command="[sh, -c, exit 3]", more="exits: {2: flaky}")
    project.write("m.yaml", failed)
    assert "failed: Command failed with exit code 3" in project.run("run", "m.yaml").stderr


@pytest.mark.parametrize(("command", "code"), [("[sleep, '60']", 124), ("[no-such-program]", 127)])
def test_later_steps_read_the_outcome_of_what_has_no_exit_code(
    tmp_path: Path, command: str, code: int
) -> None:
    text = LOOP.replace('"echo out {{name}}; echo err >&2; test -e mended"', command)
    project = Project(tmp_path, {"m.yaml": text.replace("timeout: 1m", "timeout: 0.2s")})
    project.write("script.yaml", "fix: [{outcome: other, otherDescription: no}]\n")
    project.run("run", "m.yaml", *REHEARSE, "--script", "script.yaml").assert_exit(1)
    assert f"{code} failed: " in project.run("logs", "fix", "--prompt").assert_success().stdout
    assert "outcome failed" in project.run("status").assert_success().stdout


def test_what_has_no_exit_code_goes_where_every_other_code_goes(tmp_path: Path) -> None:
    """Whatever the order of the outcomes is, if none of them is `failed`."""
    exits = 'exits: {0: passed, "*": odd, 7: seven}'
    text = ONE.format(command="[no-such-program]", more=exits)
    text = text.replace("failed: {action", "odd: {action").replace("flaky", "seven")
    project = Project(tmp_path, {"m.yaml": text})
    project.run("run", "m.yaml").assert_exit(1)
    assert project.latest_state["reason"] == "failed"


SHAPES = {
    "argument": '[python3, show.py, "{{value}}"]',
    "script": "python3 show.py {{value}}",
    "quoted": "'python3 show.py \"{{value}}\"'",
    "single": "\"python3 show.py '{{value}}'\"",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_values_stay_values_in_commands(tmp_path: Path, shape: str) -> None:
    project = Project(
        tmp_path, {"m.yaml": ONE.format(command=SHAPES[shape], more="exits: {2: flaky}")}
    )
    project.write("show.py", "import json, sys; json.dump(sys.argv[1:], open('seen.json', 'w'))\n")
    # Each run costs a second: those that have broken shells, and one of each other kind.
    for payload in PAYLOADS[2 :: 7 if shape != "script" else 4]:
        (tmp_path / "in.json").write_text(json.dumps({"value": payload}))
        project.run("run", "m.yaml", "--inputs-file", "in.json").assert_success()
        assert json.loads((tmp_path / "seen.json").read_text()) == [payload]
        assert not (tmp_path / "canary").exists()


def test_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    text = ONE.format(command="[seq, '30000']", more="exits: {2: flaky}")
    project = Project(tmp_path, {"m.yaml": text})
    project.run("run", "m.yaml").assert_success()
    output = project.latest_state["steps"]["work"]["output"]
    assert output.endswith("\n29999\n30000")
    assert len(output) <= 8192
