"""Gates at a real terminal: the question is shown and asked there."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import pytest

from tests.acceptance.fakes import read_state
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.terminal import Terminal, at_terminal

GATED = recipe("""
    stages:
      - name: planning
        steps: [{id: a, agent: helper, prompt: "STEP:a", output: findings}]
        approval: {required: true, prompt: "Found {{findings}}.\\nGo on?"}
      - name: doing
        steps: [{id: b, agent: helper, prompt: "STEP:b [{{approval.message}}]"}]
""")
QUESTION = "A message may follow the letter:"


def start(
    shop: Workshop, *words: str, text: str = GATED, answer: str = "two issues"
) -> AbstractContextManager[Terminal]:
    shop.answers(rule("STEP:a", answer))
    shop.write("r.yaml", text)
    return at_terminal(shop.folder, shop.surroundings, *(words or ("run", "r.yaml")))


def test_b_gate_on_a_terminal_shows_its_prompt_and_asks(shop: Workshop) -> None:
    with start(shop) as terminal:
        shown = terminal.read_until(QUESTION)
        assert "planning" in shown
        assert "Found two issues." in shown
        assert "Go on?" in shown
        for word in ("what?", "maybe", "abort", "no idea", ""):
            terminal.type(f"{word}\n")
            told = terminal.read_until(QUESTION)
            assert "type a to approve, d to deny, or l to decide later" in told
            assert not word or f"'{word.split()[0]}' is not an answer here" in told
        terminal.type("a looks fine to me\n")
        assert terminal.wait() == 0
    assert shop.prompt("b") == "STEP:b [looks fine to me]"


def test_c_state_is_current_while_a_person_is_asked(shop: Workshop) -> None:
    """Others look at `state.json`, and see that the run waits, and for what."""
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        state = read_state(shop.latest)
        assert [gate["stage"] for gate in state["approvals"]] == ["planning"]
        assert state["steps"]["a"]["status"] == "completed"
        terminal.type("a\n")
        assert terminal.wait() == 0


def test_parallel_items_ask_one_person_one_question_at_a_time(shop: Workshop) -> None:
    text = recipe("""
        context: {items: [x, y, z]}
        steps:
          - {id: look, foreach: "{{items}}", parallel: true, agent: helper, prompt: "See {{item}}.",
             collect: all}
          - {id: sum, agent: helper, prompt: "All: {{all}}"}
    """)
    shop.write("r.yaml", text)
    words = ("run", "r.yaml", "--backend", "human", "--no-live")
    with at_terminal(shop.folder, shop.surroundings, *words) as terminal:
        asked = []
        for _ in range(3):
            shown = terminal.read_until("a line with only '.':")
            assert shown.count("See ") == 1
            item = shown.partition("See ")[2][0]
            assert f"Step 'look[{'xyz'.index(item)}]'" in shown
            asked.append(item)
            terminal.type(f"saw {item}\n.\n")
        shown = terminal.read_until("a line with only '.':")
        assert 'All: ["saw x","saw y","saw z"]' in shown.replace('", "', '","')
        terminal.type("done\n.\n")
        assert terminal.wait() == 0
    assert sorted(asked) == ["x", "y", "z"]


@pytest.mark.parametrize(("word", "code"), [("y", 0), ("Yes", 0), ("appr", 0), ("n", 1)])
def test_b_gate_on_a_terminal_takes_yes_and_no(shop: Workshop, word: str, code: int) -> None:
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        terminal.type(f"{word}\n")
        assert terminal.wait() == code
    assert shop.asked() == (["a"] if code else ["a", "b"])


def test_b_gate_on_a_terminal_denied_is_final(shop: Workshop) -> None:
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("d not today\n")
        assert terminal.wait() == 1
    assert shop.asked() == ["a"]
    played = shop.go_on(exit_code=1)
    (gate,) = played.state["approvals"]
    assert (gate["status"], gate["message"]) == ("denied", "not today")


def test_b_gate_on_a_terminal_later_parks(shop: Workshop) -> None:
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("l\n")
        assert terminal.wait() == 6
        assert "orchestrate approve" in terminal.shown
    shop.run("approve", "latest").assert_success()
    shop.go_on()
    assert shop.asked() == ["a", "b"]


def test_b_gate_resume_asks_on_a_terminal_too(shop: Workshop) -> None:
    shop.play(GATED, exit_code=6)
    with at_terminal(shop.folder, shop.surroundings, "resume", "latest") as terminal:
        terminal.read_until(QUESTION)
        terminal.type("a\n")
        assert terminal.wait() == 0
    assert shop.prompt("b") == "STEP:b []"


def test_b_gate_the_end_of_input_parks(shop: Workshop) -> None:
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("\x04")
        assert terminal.wait() == 6
    assert shop.asked() == ["a"]


def test_b_gate_control_characters_never_reach_the_terminal(shop: Workshop) -> None:
    """The live view moves the cursor itself, so this is about the lines; tests/cli/live has it."""
    hostile = "\x1b]0;owned\x07 \x1b[2J red"
    with start(shop, "run", "r.yaml", "--no-live", answer=hostile) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("a\n")
        assert terminal.wait() == 0
    everything = shown + terminal.shown
    assert "red" in everything
    assert "\x1b" not in everything
    assert "\x07" not in everything


@pytest.mark.parametrize(("default", "code"), [("approve", 0), ("deny", 1)])
def test_r8_8_a_waiting_run_applies_the_timeout(shop: Workshop, default: str, code: int) -> None:
    text = GATED.replace("required: true", f"required: true, timeout: 5, default: {default}")
    with start(shop, text=text) as terminal:
        terminal.read_until(QUESTION)
        assert terminal.wait() == code
    played = shop.go_on("resume", "latest", exit_code=code)
    (gate,) = played.state["approvals"]
    assert gate["decided_by"] == "timeout"
    assert shop.asked() == (["a", "b"] if default == "approve" else ["a"])


def test_r8_8_while_a_run_waits_at_a_terminal_others_may_decide(shop: Workshop) -> None:
    with start(shop) as terminal:
        terminal.read_until(QUESTION)
        said = shop.run("approve", "latest").assert_success()
        # Whichever is true by the time that it looks.
        assert "goes on" in said.stdout or "the run has completed" in said.stdout
        assert terminal.wait() == 0
    assert shop.asked() == ["a", "b"]


@pytest.mark.parametrize("timeout", ["", ", timeout: 60"])
def test_b_gate_ctrl_c_at_the_question_stops_the_run(shop: Workshop, timeout: str) -> None:
    text = GATED.replace("required: true", f"required: true{timeout}")
    with start(shop, text=text) as terminal:
        terminal.read_until(QUESTION)
        time.sleep(0.2)
        terminal.type("\x03")
        assert terminal.wait(60) == 130
    played = shop.go_on(exit_code=6)
    assert played.state["status"] == "paused"
    assert shop.asked() == ["a"]


def test_r5_nothing_is_asked_when_the_answer_is_json(shop: Workshop) -> None:
    with start(shop, "run", "r.yaml", "--json") as terminal:
        assert terminal.wait() == 6
        assert '"status"' in terminal.shown
        assert QUESTION not in terminal.shown


def test_r5_without_a_terminal_nothing_blocks(shop: Workshop) -> None:
    played = shop.play(GATED, exit_code=6)
    assert QUESTION not in played.result.stderr
    for verb in ("approve", "deny"):
        assert f"orchestrate {verb} {played.run_id}" in played.result.stderr
