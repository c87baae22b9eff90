"""A §11, §13, rulings §7: agents that fail, crash, hang or lie, and what the run makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.engine.prompts import CUT_OFF
from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, Line, Scene, machine, said
from tests.promises.processes import is_alive

ONE = machine({"only": {"done": "!done"}})

# What a call may do instead of answering, and a word that the user is told.
FAILURES: dict[str, tuple[Line, str]] = {
    "crash": ({"exit": 3, "stderr": "Error: cannot find the moon"}, "cannot find the moon"),
    "api-error": ({"error": "API Error: 400 no such model", "status": 400}, "400 no such model"),
    "not-logged-in": ({"error": "Invalid API key · Please run /login"}, "Invalid API key"),
    "exit-0-without-a-result": ({"exit": 0}, "before it was done"),
    "killed": ({"run": ["kill -9 $PPID"]}, "SIGKILL"),
    # An answer that says it went well, from a program that says it did not.
    "success-with-exit-1": ({"text": '{"outcome": "done"}', "then_exit": 1}, "exit code 1"),
    "error-with-exit-0": ({"error": "it was aborted", "then_exit": 0}, "it was aborted"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a11_an_agent_that_fails_ends_the_run(tmp_path: Path, name: str) -> None:
    line, word = FAILURES[name]
    scene = Scene(tmp_path, line)
    played = scene.play(ONE, exit_code=4)
    assert len(scene.ledger()) == 1, "a failed call is neither repeated nor reminded"
    assert played.state["status"] == "failed"
    assert word in played.step("only")["error"]["message"]
    assert word in played.result.stderr
    assert f"orchestrate resume {played.state['run_id']}" in played.result.stderr


@pytest.mark.parametrize("shape", ["object", "array"])
def test_a4_2_any_of_the_shapes_is_understood(tmp_path: Path, shape: str) -> None:
    """One object, an array or JSON lines: a user's own settings decide, not our flags."""
    scene = Scene(tmp_path, said("done", shape=shape, cost=0.5))
    played = scene.play(ONE)
    assert played.state["reason"] == "done"
    assert played.step("only")["cost_usd"] == 0.5


def test_a11_a_failed_step_is_resumed(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"exit": 1}, {"exit": 1}, said("done"))
    scene.play(PAIR, exit_code=4)
    scene.run("resume", "latest").assert_exit(4)
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert played.state["reason"] == "all-done"
    assert [call.prompt.removeprefix(CUT_OFF).splitlines()[0] for call in scene.ledger()] == [
        "Do first.", "Do second.", "Do second.", "Do second.",
    ]  # fmt: skip
    # Trying again is no new visit and no new step.
    assert played.state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}
    assert played.state["machine"]["stepCount"] == 2
    assert played.step("second")["attempts"] == 3
    done = scene.run("resume", "latest").assert_success()
    assert "nothing left to do" in done.stdout
    assert len(scene.ledger()) == 4


def test_a13_2_a_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", run=["sleep 300 & echo $! > sleeper; wait"]), said("done"))
    played = scene.play(ONE, "--step-timeout", "5", exit_code=4)
    error = played.step("only")["error"]
    assert error["context"]["kind"] == "timeout"
    # Nothing of it is left, not the agent and not what it had started.
    assert not is_alive(scene.ledger()[0].pid)
    assert not is_alive(int((scene.folder / "sleeper").read_text()))
    # Its session was seen, and is gone on with; the limit holds for the resume too.
    scene.script(said("done"), said("done"))
    scene.run("resume", "latest").assert_success()
    assert scene.ledger()[0].session == scene.ledger()[1].session


def test_a13_2_the_limit_is_for_each_call(tmp_path: Path) -> None:
    slow = ["sleep 1.3"]
    scene = Scene(tmp_path)
    scene.script(said("done", run=slow), {"text": "hm", "run": slow}, said("done", run=slow))
    scene.play(PAIR, "--step-timeout", "3")
    assert len(scene.ledger()) == 3


def test_cli_samples_7_6_an_agent_that_says_nothing_is_ended(tmp_path: Path) -> None:
    """agent-clis.md §7.6: besides the limit of the whole there is one on the stream's silence."""
    scene = Scene(tmp_path, said("done", run=["sleep 300 & echo $! > sleeper; wait"]), said("done"))
    played = scene.play(ONE, "--silence-timeout", "5", exit_code=4)
    error = played.step("only")["error"]
    assert error["context"] == {"kind": "silent", "silence_s": 5.0}
    assert "was silent for too long" in played.result.stderr
    assert not is_alive(int((scene.folder / "sleeper").read_text()))
    # It holds for the resume, unless that says otherwise: 0 is no limit at all.
    assert read_state(scene.runs_folder / "latest")["settings"]["silence_timeout"] == 5.0
    scene.script(said("done"), said("done", run=["sleep 6"]))
    scene.run("resume", "latest", "--silence-timeout", "0").assert_success()


def test_cli_samples_7_6_the_configuration_says_how_long_silence_may_last(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", run=["sleep 300"]))
    scene.write(".orchestrate/config.yaml", "silence_timeout: -1\n")
    assert "config.yaml:1:18" in scene.refuse(ONE, exit_code=5).stderr
    scene.write(".orchestrate/config.yaml", "silence_timeout: 1\n")
    played = scene.play(ONE, exit_code=4)
    assert played.step("only")["error"]["context"]["kind"] == "silent"


def test_a13_1_what_an_agent_leaves_running_is_ended(tmp_path: Path) -> None:
    """Also what it detached: an agent's step is over when its program has ended."""
    loose = "setsid sleep 300 >/dev/null 2>&1 & echo $! > sleeper"
    scene = Scene(tmp_path, said("done", run=[loose]))
    scene.play(ONE)
    assert not is_alive(int((scene.folder / "sleeper").read_text()))


def test_a8_an_invalid_recipe_starts_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    refused = scene.refuse(PAIR.replace("nextStep: second", "nextStep: secnd"), exit_code=1)
    assert "did you mean 'second'" in refused.stderr
    assert scene.ledger() == []


def test_a13_a_program_that_vanishes_during_the_run(tmp_path: Path) -> None:
    """What is missing before anything starts is configuration (5); later, the agent failed (4)."""
    scene = Scene(tmp_path, said("done", run=["rm ../programs/claude"]), said("done"))
    played = scene.play(PAIR, exit_code=4)
    assert played.step("second")["error"]["context"]["kind"] == "not-installed"
    assert "is not installed" in played.result.stderr
    # Put back, it goes on in the same session.
    scene.install("claude")
    scene.run("resume", "latest").assert_success()
    first, second = scene.ledger()
    assert (second.session, second.is_new) == (first.session, False)
