"""`check` and `produces` of a machine: rounds in the same session until the work holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project

BUILD = """
    id: build
    label: Build
    description: Build and prove it
    inputs: {task: {description: What to build}}
    initialStep: implement
    steps:
      implement:
        prompt: "Implement {{task}}"
        check:
          command: "echo seen; echo bad >&2; echo x >> tries; test $(wc -l < tries) -gt NEEDED"
        MORE
        outcomes: OUTCOMES
        onOutcome:
          complete: {action: exit, reason: done}
          GIVES-UP
          other: {action: exit, reason: user-provided-other, status: failed}
    """
SCRIPT = "implement: [complete]"
FLAGS = ("--backend", "rehearsal", "--rehearse-commands", "--script", "script.yaml")


def built(folder: Path, needed: int, *, declared: bool = True, more: str = "") -> Project:
    exits = "check-failed: {action: exit, reason: still-bad, status: failed}"
    text = BUILD.replace("NEEDED", str(needed)).replace("MORE", more or "retry: {maxAttempts: 2}")
    text = text.replace("OUTCOMES", f"[complete, {'check-failed, ' if declared else ''}other]")
    text = text.replace("GIVES-UP", exits if declared else "# it does not give up by itself")
    return Project(folder, {"m.yaml": text, "script.yaml": SCRIPT})


@pytest.mark.parametrize("needed", [0, 2])
def test_the_agent_is_told_until_the_check_holds(tmp_path: Path, needed: int) -> None:
    project = built(tmp_path, needed)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_success()
    state = project.latest_state
    assert state["reason"] == "done"
    rounds = [name for name in state["steps"] if ":round-" in name]
    assert rounds == [f"implement:round-{number}" for number in range(1, needed + 1)]
    # Follow-ups are calls, but neither visits nor steps.
    assert state["machine"]["stepCount"] == 1
    sessions = {state["steps"][name]["session_id"] for name in ("implement", *rounds)}
    assert len(sessions) == 1
    if needed:
        (prompt,) = (tmp_path / ".orchestrate/runs/latest/logs").glob("*round-1*.prompt.txt")
        text = prompt.read_text()
        assert "Command failed with exit code 1" in text
        assert "seen\nbad\n" in text
        assert '{"outcome": "complete"}' in text
        assert "check-failed" not in text


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ('"echo {{task}}; exit 7"', 'echo "two words"; exit 7'),
        ('[bash, -c, "cd .; exit 7"]', "cd .; exit 7"),
        ('[sh, -c, "exit 7", "{{task}}"]', "sh -c 'exit 7' two words"),
        ("[test, -e, made]", "test -e made"),
    ],
)
def test_the_agent_is_told_the_command_as_one_would_type_it(
    tmp_path: Path, command: str, told: str
) -> None:
    project = built(tmp_path, 0)
    text = (tmp_path / "m.yaml").read_text()
    before = text[text.index('"echo seen') : text.index("\n", text.index('"echo seen'))]
    project.write("m.yaml", text.replace(before, f"{command}\n      rounds: 1"))
    project.run("run", "m.yaml", "two words", *FLAGS).assert_exit(1)
    (prompt,) = (tmp_path / ".orchestrate/runs/latest/logs").glob("*round-1*.prompt.txt")
    assert f"\n\nThe command: {told}\n\nThe end of what it printed:" in prompt.read_text()


@pytest.mark.parametrize("visits", [1, 2])
def test_later_steps_read_the_last_answer(tmp_path: Path, visits: int) -> None:
    """Of this visit: a second one whose first answer holds is not overruled by an older round."""
    project = built(tmp_path, 2)
    text = (tmp_path / "m.yaml").read_text()
    text = text.replace("complete: {action: exit, reason: done}", "complete: {nextStep: tell}")
    text += f"""\
  tell:
    command: >-
      echo {{{{steps.implement.outcome}}}} {{{{steps.implement.output}}}} >> told;
      test $(grep -c ^complete told) -ge {visits}
    onOutcome:
      passed: {{action: exit, reason: done}}
      failed: {{nextStep: implement}}
"""
    project.write("m.yaml", text)
    script = """
        implement: [{outcome: complete, text: first}, {outcome: complete, text: second},
          {outcome: complete, text: third}, {outcome: complete, text: fourth}]
        """
    project.write("script.yaml", script)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_success()
    words = (tmp_path / "told").read_text().split()
    answers = [word for word in words if word in ("first", "second", "third", "fourth")]
    assert answers == ["third", "fourth"][:visits]
    assert answers[-1] in project.latest_state["steps"]["implement"]["output"]


def test_after_the_last_round_it_is_check_failed(tmp_path: Path) -> None:
    project = built(tmp_path, 99)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_exit(1)
    assert project.latest_state["reason"] == "still-bad"
    assert (tmp_path / "tries").read_text().count("x") == 4


def test_15_5_the_outcome_of_the_step_is_then_check_failed(tmp_path: Path) -> None:
    """Not what the agent said of its work."""
    project = built(tmp_path, 99)
    text = (tmp_path / "m.yaml").read_text()
    exits = "check-failed: {action: exit, reason: still-bad, status: failed}"
    text = text.replace(exits, "check-failed: {nextStep: tell}")
    text += """\
  tell:
    command: [echo, "{{steps.implement.outcome}}"]
    onOutcome:
      passed: {action: exit, reason: told}
      failed: {action: exit, reason: mute}
"""
    project.write("m.yaml", text)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_success()
    steps = project.latest_state["steps"]
    assert steps["tell"]["output"] == "check-failed"
    assert (steps["implement"]["status"], steps["implement"]["exit_code"]) == ("failed", 1)


def test_15_5_mended_by_hand_a_resume_goes_on_from_the_check(tmp_path: Path) -> None:
    """The check is run again, the agent is not; its outcome counts again."""
    project = built(tmp_path, 99, declared=False)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_exit(3)
    (tmp_path / "tries").write_text("x\n" * 200)
    project.run("resume", "latest").assert_success()
    implement = project.latest_state["steps"]["implement"]
    assert (implement["status"], implement["outcome"]) == ("completed", "complete")
    assert "error" not in implement
    assert project.latest_state["reason"] == "done"


def test_without_that_outcome_the_run_ends(tmp_path: Path) -> None:
    project = built(tmp_path, 99, declared=False)
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_exit(3)
    assert project.latest_state["reason"] == "check-failed:implement"


def test_a_file_must_be_there(tmp_path: Path) -> None:
    project = built(tmp_path, 0, more="produces: [made.txt]")
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_exit(1)
    (prompt,) = (tmp_path / ".orchestrate/runs/latest/logs").glob("*round-1*.prompt.txt")
    assert "the check failed: produces: required file is missing: made.txt" in prompt.read_text()
    assert not (tmp_path / "tries").exists()
    shown = project.run("run", "m.yaml", "--dry-run").assert_success().stdout
    assert "Check: file made.txt; command " in shown
    project.write("made.txt", "x")
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_success()


def test_other_is_not_checked(tmp_path: Path) -> None:
    project = built(tmp_path, 99)
    project.write("script.yaml", "implement: [{outcome: other, otherDescription: no}]\n")
    project.run("run", "m.yaml", "a wall", *FLAGS).assert_exit(1)
    assert project.latest_state["reason"] == "user-provided-other"
    assert not (tmp_path / "tries").exists()


def test_a_dry_run_and_validate_count_one_step(tmp_path: Path) -> None:
    project = built(tmp_path, 0)
    assert "(1 step)" in project.run("validate", "m.yaml").assert_success().stdout
    shown = project.run("run", "m.yaml", "--dry-run").assert_success().stdout
    assert "round-1" not in shown
    assert "Outcomes: complete → EXIT, other → EXIT" in shown
    assert "Check: command " in shown
    assert "(at most 3 rounds, then → EXIT(failed))" in shown
    assert "implement:round-3" in project.run("plan", "m.yaml").assert_success().stdout


@pytest.mark.parametrize(
    ("given", "code", "tries"),
    [
        ("", 0, 0),
        ("sh -c 'echo x >> tries'", 0, 2),
        ('["sh", "-c", "echo x >> tries; false"]', 1, 5),
    ],
)
def test_15_4_an_input_may_be_the_command_and_the_check(
    tmp_path: Path, given: str, code: int, tries: int
) -> None:
    """An empty one means none: the step passes, and nothing is checked."""
    text = BUILD.replace("MORE", "retry: {maxAttempts: 2}").replace("OUTCOMES", "[complete, other]")
    text = text.replace("GIVES-UP", "# nothing").replace(
        "initialStep: implement", "initialStep: test"
    )
    text = text.replace("What to build}}", "What}, check: {type: command, default: []}}")
    text = (
        text[: text.index('          command: "echo')]
        + '          command: "{{check}}"\n'
        + (text[text.index("        retry:") :])
    )
    text += """  test:
        command: ["{{check}}"]
        onOutcome: {passed: {nextStep: implement}, failed: {nextStep: implement}}
    """
    project = Project(tmp_path, {"m.yaml": text, "script.yaml": SCRIPT})
    flags = ("-i", f"check={given}", *FLAGS)
    project.run("run", "m.yaml", "a wall", *flags).assert_exit(0 if code == 0 else 3)
    made = tmp_path / "tries"
    assert (made.read_text().count("x") if made.exists() else 0) == tries
    shown = project.run("run", "m.yaml", "--dry-run", *flags[:2]).assert_success().stdout
    assert ("Check: command sh -c echo x" if given else "Check: nothing: check is empty") in shown
