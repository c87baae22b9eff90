"""Number 25: a second live machine or recipe run is refused and names the first; the others."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.promises.processes import await_ends
from tests.recipes.fakes import Workshop, recipe, rule

SLOW = recipe('steps: [{id: a, agent: helper, prompt: "STEP:a"}]')
OTHER = recipe('steps: [{id: b, agent: helper, prompt: "STEP:b"}]', "other")
WORKFLOW = 'version: "1.1"\nsteps: [{name: A, command: ["true"]}]\n'


@pytest.fixture
def slow(shop: Workshop) -> Path:
    """A recipe whose agent waits for a file; the file."""
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=60, until=str(go)))
    shop.write("r.yaml", SLOW)
    shop.write("other.yaml", OTHER)
    shop.write("w.yaml", WORKFLOW)
    return go


def test_truth_25_the_second_is_refused_with_the_first_s_id(shop: Workshop, slow: Path) -> None:
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(1)
        first_id = shop.latest.name
        said = shop.run("run", "other.yaml").assert_exit(5)
        assert first_id in said.stderr
        assert "--allow-concurrent" in said.stderr
        detached = shop.run("run", "-d", "other.yaml").assert_exit(5)
        assert first_id in detached.stderr
        elsewhere = str(shop.top / "elsewhere")
        shop.run("run", "other.yaml", "--state-dir", elsewhere).assert_exit(5)
        assert shop.latest.name == first_id
        assert len(list(shop.runs_folder.glob("2*"))) == 1
        beside = shop.run("run", "w.yaml").assert_success()
        assert first_id in beside.stderr, "a workflow gets a note"
        shop.run("run", "other.yaml", "--backend", "rehearsal").assert_success()
        slow.touch()
        assert first.wait(60) == 0
    shop.run("run", "other.yaml").assert_success()


def test_truth_25_what_a_step_of_the_first_starts_is_no_second_run(shop: Workshop) -> None:
    """The agent of the outer run starts an inner one in the same workspace."""
    shop.write("other.yaml", OTHER)
    inner = [sys.executable, "-m", "orchestrate", "run", "other.yaml"]
    shop.play(SLOW, rules=(rule("STEP:a", {"run": inner, "text": "done"}),))
    assert shop.asked() == ["a", "b"]


def test_truth_25_of_two_at_the_same_moment_one_wins(shop: Workshop, slow: Path) -> None:
    with ExitStack() as stack:
        started = [stack.enter_context(shop.started("run", "r.yaml")) for _ in range(3)]
        shop.await_calls(1)
        # The winner must not be over before the others have tried.
        await_ends(started, 2)
        slow.touch()
        codes = sorted(process.wait(60) for process in started)
    assert codes == [0, 5, 5]
    assert shop.asked() == ["a"]


def test_truth_25_a_program_that_a_killed_orchestrator_left_counts(
    shop: Workshop, slow: Path
) -> None:
    """Else two agents would work in one tree at once."""
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(1)
        first.kill()
        first.wait(60)
    first_id = shop.latest.name
    said = shop.run("run", "other.yaml").assert_exit(5)
    assert f"a program of run {first_id}" in said.stderr
    for way_out in (f"orchestrate resume {first_id}", f"orchestrate stop {first_id}"):
        assert way_out in said.stderr
    assert first_id in shop.run("run", "w.yaml").assert_success().stderr
    shop.run("stop", first_id).assert_success()
    shop.run("run", "other.yaml").assert_success()
    assert shop.asked() == ["a", "b"]
