"""A §19.2 and rulings §7: what a run has cost, per step and in all, and what nobody knows."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.machines.fakes import PAIR, ROUND, Scene, machine, said


def test_a19_2_a_sessions_running_total_is_not_added_up(tmp_path: Path) -> None:
    """Claude Code says 0.05, 0.15, 0.45 after calls of 0.05, 0.10 and 0.30."""
    lines = (said("broken", cost=0.05), said("complete", cost=0.10), said("fine", cost=0.30))
    scene = Scene(tmp_path, *lines)
    played = scene.play(ROUND)
    finished = {
        (event["node"], event["visit"]): event["result"]["cost_usd"]
        for event in scene.happened("step-finished")
    }
    assert finished == {("review", 1): 0.05, ("fix", 1): 0.10, ("review", 2): 0.30}
    costs = played.state["costs"]
    assert round(costs["cost_usd"], 6) == 0.45
    assert (costs["turns"], costs["unreported"]) == (3, 0)
    assert (costs["input_tokens"], costs["output_tokens"]) == (300, 30)
    assert "cost: $0.4500 in 3 agent calls" in played.result.stderr


def test_a19_2_what_is_not_reported_is_counted_as_unknown(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("broken", cost=0.05), said("complete"), said("fine"))
    played = scene.play(ROUND)
    assert (played.state["costs"]["turns"], played.state["costs"]["unreported"]) == (3, 2)
    assert "2 did not report theirs" in played.result.stderr
    scene.script(*[said("fine")] * 4)
    silent = scene.play(ROUND)
    assert "cost_usd" not in silent.step("review")
    assert "none reported it" in silent.result.stderr
    assert "$" not in silent.result.stderr, "what nobody knows is not nothing"


def test_a19_2_reminders_and_failures_have_a_bill_too(tmp_path: Path) -> None:
    lines = (
        {"text": "hm", "cost": 0.01}, said("done", cost=0.02),
        {"error": "API Error: 400 bad", "cost": 0.04}, said("done", cost=0.08),
    )  # fmt: skip
    scene = Scene(tmp_path, *lines)
    failed = scene.play(PAIR, exit_code=4)
    assert round(failed.state["costs"]["cost_usd"], 6) == 0.07
    assert failed.step("first")["cost_usd"] == 0.03, "the step's reminder is part of its bill"
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert round(played.state["costs"]["cost_usd"], 6) == 0.15
    assert played.state["costs"]["turns"] == 4


def test_a19_2_each_session_counts_from_nothing(tmp_path: Path) -> None:
    """After a restart the new session's total is its own; a failed first call is part of one."""
    steps = {"task": {"next": "@trial", "none": "!no-tasks"}}
    lines = (
        {"error": "API Error: 400 bad", "cost": 0.01, "is_terse": True},
        said("next", cost=0.50, is_terse=True),
        said("none", cost=0.75, is_terse=True),
    )
    scene = Scene(tmp_path, *lines)
    scene.play(machine(steps), exit_code=4)
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert len({call.session for call in scene.ledger()}) == 2
    assert [event["result"]["cost_usd"] for event in scene.happened("step-finished")] == [
        0.01, 0.50, 0.75,
    ]  # fmt: skip
    assert round(played.state["costs"]["cost_usd"], 6) == 1.26


def test_a19_2_a_session_that_was_there_before_has_an_unknown_past(tmp_path: Path) -> None:
    """Its total holds a chat that is not ours; from the second call on the difference is known."""
    chat = machine({"chat": {"done": "!said"}}, name="chat")
    scene = Scene(tmp_path, said("done", cost=2.0), said("done", cost=0.1), said("done", cost=0.2))
    scene.play(chat)
    session = scene.ledger()[0].session
    played = scene.play(PAIR, "--session", session)
    assert "cost_usd" not in played.step("first")
    assert played.step("second")["cost_usd"] == 0.2
    assert played.state["costs"]["cost_usd"] == 0.2
    assert (played.state["costs"]["turns"], played.state["costs"]["unreported"]) == (2, 1)


def test_a19_2_codex_counts_tokens_up_and_no_dollars(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    played = scene.play(PAIR, "--backend", "codex")
    assert [played.step(step)["input_tokens"] for step in ("first", "second")] == [1000, 1000]
    assert played.state["costs"]["input_tokens"] == 2000
    assert played.state["costs"]["unreported"] == 2


_NAMED = {
    "recipe": """
        name: pair
        description: Two steps, one conversation
        version: 1.0.0
        steps:
          - {id: First, prompt: first, session: s, check: {command: "test -e made || ! touch made"}}
          - {id: Second, prompt: second, session: s, output: said}
    """,
    "workflow": """
        version: "1.4"
        name: pair
        steps:
          - {name: First, provider: claude, prompt: first, session: s,
             check: {command: [bash, -c, "test -e made || ! touch made"]}}
          - {name: Second, provider: claude, prompt: second, session: s}
    """,
}


@pytest.mark.parametrize("dialect", _NAMED)
def test_15_named_sessions_and_rounds_have_running_totals_too(tmp_path: Path, dialect: str) -> None:
    scene = Scene(tmp_path, said("a", cost=0.05), said("b", cost=0.10), said("c", cost=0.30))
    played = scene.play(dedent(_NAMED[dialect]))
    assert len({call.session for call in scene.ledger()}) == 1
    costs = [played.step(name)["cost_usd"] for name in ("First", "First:round-1", "Second")]
    assert costs == [0.05, 0.10, 0.30]
    assert round(played.state["costs"]["cost_usd"], 6) == 0.45
