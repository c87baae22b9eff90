"""The agents without a bill: a person at a terminal, and the recording of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, Scene, machine, said
from tests.machines.terminal import Terminal

HUMAN = ("run", "w.yaml", "--backend", "human")


def answer(terminal: Terminal, step: str, keys: str) -> None:
    """Wait until the person is asked about a step, and type."""
    terminal.await_words(f"Step '{step}'")
    terminal.await_words("Outcome (number or name): ")
    terminal.type(keys)


def test_a4_1_a_person_picks_the_outcomes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    with scene.at_terminal(*HUMAN) as terminal:
        answer(terminal, "first", "9\n")
        terminal.await_words("is not one of them")
        terminal.type("1\n")
        answer(terminal, "second", "done\n")
        shown = terminal.finish()
    assert terminal.process.returncode == 0
    assert "Exit: all-done" in shown
    assert "Do first.\n\n  1  done\n" in shown
    assert "End your response" not in shown
    state = read_state(scene.runs_folder / "latest")
    assert [state["steps"][step]["outcome"] for step in ("first", "second")] == ["done", "done"]
    assert {state["steps"][step]["agent"] for step in ("first", "second")} == {"human"}


def test_a6_3_a_person_picks_other_and_says_why(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    with scene.at_terminal(*HUMAN) as terminal:
        answer(terminal, "first", "other\n")
        terminal.await_words("what is it?")
        terminal.type("\n")
        terminal.await_words("what is it?")
        terminal.type("the key is lost\n")
        terminal.finish()
    assert terminal.process.returncode == 0
    state = read_state(scene.runs_folder / "latest")
    assert state["reason"] == "user-provided-other"
    assert state["steps"]["first"]["outcome_description"] == "the key is lost"


def test_a9_nobody_is_asked_without_a_terminal(tmp_path: Path) -> None:
    """It can be known before anything starts: configuration, exit 5 (rulings §4)."""
    refused = Scene(tmp_path).refuse(PAIR, "--backend", "human", exit_code=5)
    assert "terminal" in refused.stderr


def test_a13_ctrl_c_at_the_question_stops_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    with scene.at_terminal(*HUMAN) as terminal:
        answer(terminal, "first", "done\n")
        answer(terminal, "second", "\x03")
        terminal.finish()
    assert terminal.process.returncode == 130
    assert read_state(scene.runs_folder / "latest")["status"] == "paused"
    # The person is asked again, about this step and no other.
    with scene.at_terminal("resume", "latest") as terminal:
        answer(terminal, "second", "1\n")
        shown = terminal.finish()
    assert terminal.process.returncode == 0
    assert "Step 'first'" not in shown


@pytest.mark.parametrize("how", ["ctrl-d", "hang-up"])
def test_a13_a_person_who_leaves_is_not_asked_for_ever(tmp_path: Path, how: str) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    with scene.at_terminal(*HUMAN) as terminal:
        answer(terminal, "first", "\x04" if how == "ctrl-d" else "")
        if how == "hang-up":
            terminal.hang_up()
            terminal.process.wait(timeout=60)
        else:
            terminal.finish()
    assert terminal.process.returncode != 0
    assert len(scene.happened("step-started")) == 1
    with scene.at_terminal("resume", "latest") as terminal:
        answer(terminal, "first", "1\n")
        answer(terminal, "second", "1\n")
        terminal.finish()
    assert terminal.process.returncode == 0


# Replay.


def recorded(scene: Scene) -> str:
    """A run with a reminder in it; its id."""
    scene.script(said("done"), {"text": "hm"}, said("done", "second thoughts"))
    return str(scene.play(PAIR).state["run_id"])


def test_a20_4_a_recorded_run_is_replayed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    run_id = recorded(scene)
    before = (scene.runs_folder / run_id / "events.jsonl").read_text()
    for name in ("latest", run_id[:-2], run_id):
        played = scene.play(PAIR, "--backend", "replay", "--recording", name)
        assert played.state["reason"] == "all-done"
        assert "second thoughts" in played.result.stdout
        assert played.step("second")["attempts"] == 2
    assert len(scene.ledger()) == 3, "an agent was asked"
    assert (scene.runs_folder / run_id / "events.jsonl").read_text() == before


def test_a20_4_a_changed_prompt_is_a_named_miss(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    run_id = recorded(scene)
    changed = PAIR.replace("Do second.", "Do second well.")
    flags = ("--backend", "replay", "--recording", run_id)
    played = scene.play(changed, *flags, exit_code=4)
    assert "the prompt of step 'second' (visit 1) has changed" in played.result.stderr
    assert played.step("first")["outcome"] == "done"
    longer = machine({"first": {"done": "third"}, "third": {"done": "!all-done"}})
    played = scene.play(longer, *flags, exit_code=4)
    assert "step 'third' (visit 1) is not in the recording" in played.result.stderr


def test_a20_4_a_replay_needs_a_recording(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert "--recording" in scene.refuse(PAIR, "--backend", "replay").stderr
    scene.refuse(PAIR, "--backend", "replay", "--recording", "latest")
    scene.refuse(PAIR, "--backend", "claude-code", "--recording", "latest")
