"""Number 23: a decision from anywhere wins over a question that is open at a terminal."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrate.app.deciding import decide
from orchestrate.app.ending.claim import orchestrator_of
from orchestrate.state.ballots import cast, remove_drafts
from orchestrate.state.events import GateDecided
from orchestrate.state.locks import Owner, lock_run
from orchestrate.state.runs import Run
from orchestrate.testing import Result
from tests.acceptance.fakes import read_state
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.terminal import at_terminal

GATED = recipe("""
    stages:
      - name: planning
        steps: [{id: a, agent: helper, prompt: "STEP:a"}]
        approval: {required: true, prompt: "Go on?"}
      - name: doing
        steps: [{id: b, agent: helper, prompt: "STEP:b [{{approval.message}}]"}]
""")
QUESTION = "A message may follow the letter:"
# One item waits for a person while another one's agent works.
BESIDE = recipe("""
    context: {names: [asks, works]}
    steps:
      - id: each
        type: recipe
        recipe: "child-{{item}}.yaml"
        foreach: "{{names}}"
        parallel: true
""")
ASKS = recipe("""
    stages:
      - name: asking
        steps: [{id: a, agent: helper, prompt: "STEP:a"}]
        approval: {required: true, prompt: "Go on?", timeout: 86400}
      - name: after
        steps: [{id: b, agent: helper, prompt: "STEP:b"}]
""")
# A call in which only a person is waited for, for a time that a busy machine may need before that.
TIMED = recipe("steps: [{id: call, type: recipe, recipe: asks.yaml, timeout: 6}]")
ASKS_AT_ONCE = recipe("""
    stages:
      - name: asking
        steps: [{id: a, type: bash, command: "true"}]
        approval: {required: true, prompt: "Go on?", timeout: 86400}
""")
WORKS = recipe('steps: [{id: w, agent: helper, prompt: "STEP:w"}]')


@pytest.mark.parametrize("view", ["--no-live", "--live"])
def test_truth_23_approve_ends_the_question_and_the_run_goes_on(shop: Workshop, view: str) -> None:
    shop.write("r.yaml", GATED)
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", view) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("half an ans")
        waiting = shop.run("approvals").assert_success().stdout
        assert "orchestrate approve" in waiting
        assert "it also asks at a terminal" in waiting
        said = shop.run(
            "approve", "latest", "--message", "from afar", env={"USER": "bob"}
        ).assert_success()
        assert "is approved" in said.stdout
        terminal.read_until("approved elsewhere, by bob")
        assert terminal.wait() == 0
    assert shop.prompt("b") == "STEP:b [from afar]"
    (gate,) = read_state(shop.latest)["approvals"]
    assert (gate["status"], gate["decided_by"]) == ("approved", "bob")


def test_truth_23_deny_does_so_too_and_the_loser_is_told(shop: Workshop) -> None:
    shop.write("r.yaml", GATED)
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml") as terminal:
        terminal.read_until(QUESTION)
        shop.run("deny", "latest", env={"USER": "bob"}).assert_success()
        assert terminal.wait() == 1
    late = shop.run("approve", "latest").assert_exit(2)
    assert "denied already, by bob" in late.stderr
    assert shop.asked() == ["a"]


def test_truth_23_a_run_that_ends_by_a_decision_does_not_make_it_anothers(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the decision over and ends between two looks of the command that decides."""
    shop.write("r.yaml", GATED)
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml") as terminal:
        terminal.read_until(QUESTION)

        def look_when_it_is_over(run: Run) -> Owner | None:
            assert terminal.wait() == 1
            return orchestrator_of(run)

        monkeypatch.setattr(decide, "orchestrator_of", look_when_it_is_over)
        said = shop.run("deny", "latest", env={"USER": "bob"}).assert_success()
    assert "is denied" in said.stdout


def test_truth_23_of_several_at_once_exactly_one_counts(shop: Workshop) -> None:
    shop.write("r.yaml", GATED)
    said: list[Result] = []
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml") as terminal:
        terminal.read_until(QUESTION)
        words = (("approve", "ann"), ("deny", "bob"))
        threads = [
            threading.Thread(
                target=lambda verb=verb, name=name: said.append(
                    shop.run(verb, "latest", env={"USER": name})
                )
            )
            for verb, name in words
        ]
        for thread in threads:
            thread.start()
        terminal.type("a me\n")
        for thread in threads:
            thread.join()
        code = terminal.wait()
    (gate,) = read_state(shop.latest)["approvals"]
    assert code == (0 if gate["status"] == "approved" else 1)
    winners = [result for result in said if result.exit_code == 0]
    assert len(winners) <= 1
    for loser in (result for result in said if result.exit_code != 0):
        assert f"{gate['status']} already, by {gate['decided_by']}" in loser.stderr
    events = [line for line in (shop.latest / "events.jsonl").read_text("utf-8").splitlines()
              if '"gate-decided"' in line]  # fmt: skip
    assert len(events) == 1


def test_truth_23_a_decision_counts_while_another_item_is_at_work(shop: Workshop) -> None:
    go = shop.top / "go"
    with beside_a_worker(shop, go) as run:
        for looked in ("approvals", "status", "inbox"):
            shown = shop.run(looked).assert_success().stdout
            assert "Go on?" in shown
            assert "terminal" not in shown, "it asks at none"
        said = shop.run("approve", "latest").assert_success()
        assert "is approved" in said.stdout
        shop.await_calls(1, "b")  # long before the other one has ended
        go.touch()
        assert run.wait(60) == 0


def test_truth_23_a_denial_ends_the_item_that_is_at_work(shop: Workshop) -> None:
    with beside_a_worker(shop, shop.top / "never") as run:
        shop.run("deny", "latest").assert_success()
        assert run.wait(60) == 1
    (worked,) = shop.calls("w")
    assert worked.end is None
    assert "b" not in shop.asked()


def test_truth_23_a_call_that_asks_runs_out_of_time_while_another_item_is_at_work(
    shop: Workshop,
) -> None:
    go = shop.top / "go"
    shop.write("asks.yaml", ASKS_AT_ONCE)
    with beside_a_worker(shop, go, TIMED) as run:
        shop.await_events("call-expired", 1)  # long before the other one has ended
        assert shop.run("approve", "latest").exit_code != 0
        assert run.wait(60) == 1
    (gate,) = read_state(shop.latest)["approvals"]
    assert gate["status"] == "expired"


@pytest.mark.parametrize("view", ["--no-live", "--live"])
def test_truth_23_a_question_ends_with_the_time_of_its_call(shop: Workshop, view: str) -> None:
    shop.write("asks.yaml", ASKS_AT_ONCE)
    shop.write("r.yaml", TIMED)
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", view) as terminal:
        terminal.read_until(QUESTION)
        assert terminal.wait() == 1
    (gate,) = read_state(shop.latest)["approvals"]
    assert gate["status"] == "expired"


@contextmanager
def beside_a_worker(shop: Workshop, go: Path, asks: str = ASKS) -> Iterator[subprocess.Popen[str]]:
    """A run in which one item waits for a person, and another one's agent works until it may go."""
    shop.answers(rule("STEP:w", delay=900, until=str(go)))
    for name, text in {"r": BESIDE, "child-asks": asks, "child-works": WORKS}.items():
        shop.write(f"{name}.yaml", text)
    with shop.started("run", "r.yaml") as run:
        shop.await_calls(1, "w")
        shop.await_events("gate-opened", 1)
        yield run


@pytest.mark.parametrize("verb", ["approve", "stop"])
def test_truth_23_resume_waits_for_who_needs_the_run_for_an_instant(
    shop: Workshop, verb: str
) -> None:
    """`approve` and what looks at a gate that is overdue hold the run's lock, but do not work."""
    shop.play(GATED, exit_code=6)
    shop.run("approve").assert_success()
    held = lock_run(shop.latest / "run.lock", shop.latest.name, ("orchestrate", verb))
    leaves = threading.Timer(1.5, held.release)
    leaves.start()
    shop.go_on()
    leaves.join()


def test_truth_23_a_decision_whose_asker_was_killed_is_not_lost(shop: Workshop) -> None:
    """The vote is on the disk before the run has recorded it: whoever looks next takes it over."""
    shop.play(GATED, exit_code=6)
    gate = read_state(shop.latest)["approvals"][0]
    vote = GateDecided(gate["frame"], gate["node"], gate["visit"], 0.0, "approved", "ann", "yes")
    assert cast(shop.latest, vote) == (vote, True)
    late = GateDecided(vote.frame, vote.node, vote.visit, 0.0, "denied", "bob")
    assert cast(shop.latest, late) == (vote, False)
    shop.go_on()
    assert shop.prompt("b") == "STEP:b [yes]"


def test_truth_23_a_run_at_work_that_waits_for_nothing_says_so(shop: Workshop) -> None:
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=60, until=str(go)))
    shop.write("r.yaml", GATED)
    with shop.started("run", "r.yaml") as run:
        shop.await_calls(1)
        said = shop.run("approve", "latest").assert_exit(5)
        assert "waits for no approval" in said.stderr
        go.touch()
        assert run.wait(60) == 6


def test_truth_23_what_a_killed_voter_left_is_removed(tmp_path: Path) -> None:
    ballots = tmp_path / "ballots"
    ballots.mkdir()
    gone, key = subprocess.Popen(["true"]), "0123456789abcdef"
    gone.wait()
    names = [f"{key}.json", f".{key}.{os.getpid()}.{'a' * 12}.tmp", f"{key}.{os.getpid()}"]
    for name in (*names, f".{key}.{gone.pid}.{'b' * 12}.tmp", f"{key}.{gone.pid}"):
        (ballots / name).touch()
    remove_drafts(tmp_path)
    assert sorted(os.listdir(ballots)) == sorted(names)
