"""A §2.1, §2.5, §2.6, §20.2: the execution loop, its state and its guardrails, from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, ROUND, Scene, machine, other, said
from tests.promises.processes import wait_until


def test_a2_1_the_outcomes_decide_the_way(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("broken"), said("complete"), said("fine"))
    played = scene.play(ROUND)
    assert [call.prompt.splitlines()[0] for call in scene.ledger()] == [
        "Do review.", "Do fix.", "Do review.",
    ]  # fmt: skip
    assert played.state["status"] == "completed"
    assert played.state["reason"] == "reviewed"
    assert played.state["machine"]["stepVisitCounts"] == {"review": 2, "fix": 1}
    assert played.state["machine"]["stepCount"] == 3
    assert played.step("review")["outcome"] == "fine"


def test_a2_1_the_agent_never_decides_what_comes_next(tmp_path: Path) -> None:
    """A key that names a step means nothing; only the outcome counts."""
    wish = '{"outcome": "done", "nextStep": "third", "action": "exit"}'
    scene = Scene(tmp_path, {"text": wish}, said("done"))
    steps = {"first": {"done": "second"}, "second": {"done": "!all-done"}, "third": {"done": "!no"}}
    assert scene.play(machine(steps)).state["reason"] == "all-done"
    assert len(scene.ledger()) == 2


def test_a2_1_other_ends_the_recipe_and_says_why(tmp_path: Path) -> None:
    scene = Scene(tmp_path, other("the build needs a licence"))
    played = scene.play(PAIR, "--verbose")
    assert played.state["reason"] == "user-provided-other"
    assert played.step("first")["outcome_description"] == "the build needs a licence"
    assert "the build needs a licence" in played.result.stderr
    assert len(scene.ledger()) == 1


def test_a2_1_without_exit_on_other_it_is_an_outcome_like_any(tmp_path: Path) -> None:
    steps = {"first": {"done": "!first-done", "other": "second"}, "second": {"done": "!asked"}}
    scene = Scene(tmp_path, other("I am not sure"), said("done"))
    played = scene.play(machine(steps, "guardrails: {exitOnOther: false}"))
    assert played.state["reason"] == "asked"


# A §2.5 and §20.2, 1: the state.


def await_state(scene: Scene, **fields: object) -> dict[str, Any]:
    """A machine's state once it has these fields: it is a tenth of a second late (rulings 6)."""

    def read() -> dict[str, Any]:
        return dict(read_state(scene.runs_folder / "latest")["machine"])

    wait_until(lambda: read().items() >= fields.items(), f"no state has {fields}")
    return read()


def test_a20_2_1_the_state_as_the_first_step_begins(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR) as process:
        call = scene.await_call(1)
        state = await_state(scene, sessionId=call.session, stepCount=1)
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert isinstance(state.pop("startTime"), int)
    # True once the program has said so, which may be before the state was written.
    assert isinstance(state.pop("sessionCreated"), bool)
    assert state == {
        "recipeId": "trial",
        "currentStep": "first",
        "stepCount": 1,
        "stepVisitCounts": {"first": 1},
        "stepRetryCounts": {},
        "sessionId": call.session,
        "restarts": 0,
        "limits": {"maxStepVisits": 3, "maxTotalSteps": 100, "maxRestarts": None},
    }


def test_a2_5_retry_counts_start_again_with_each_visit(tmp_path: Path) -> None:
    scene = Scene(
        tmp_path,
        {"text": "no block"}, said("broken"),
        said("complete"),
        {"text": "no block"}, said("fine", wait_for="go"),
    )  # fmt: skip
    with scene.started(ROUND) as process:
        scene.await_call(3)
        scene.await_call(5)
        await_state(scene, stepVisitCounts={"review": 2, "fix": 1}, stepRetryCounts={"review": 1})
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0, "one reminder is for one visit, not for the whole run"
    assert read_state(scene.runs_folder / "latest")["machine"]["stepRetryCounts"] == {"review": 1}


# A §2.6 and §20.2, 3: guardrails.


def test_a2_6_a_step_is_visited_three_times_by_default(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 3)
    played = scene.play(ROUND, exit_code=3)
    assert played.state["status"] == "failed"
    assert played.state["reason"] == "max-step-visits-exceeded:review"
    assert "max-step-visits-exceeded:review" in played.result.stdout
    assert played.state["machine"]["stepVisitCounts"] == {"review": 3, "fix": 3}
    assert len(scene.ledger()) == 6


@pytest.mark.parametrize(
    ("head", "flags"),
    [
        ("guardrails: {maxTotalSteps: 2}", ()),
        ("", ("--max-steps", "2")),
        ("guardrails: {maxTotalSteps: 5}", ("--max-steps", "2")),
    ],
)
def test_a2_6_the_total_of_steps_is_bounded(
    tmp_path: Path, head: str, flags: tuple[str, ...]
) -> None:
    scene = Scene(tmp_path, said("broken"), said("complete"))
    text = ROUND.replace("initialStep", f"{head}\ninitialStep", 1)
    played = scene.play(text, *flags, exit_code=3)
    assert played.state["reason"] == "max-total-steps"
    assert len(scene.ledger()) == 2


def test_a2_6_visits_come_before_the_total(tmp_path: Path) -> None:
    """A lists the limit of visits first; where both are reached, it is the reason."""
    scene = Scene(tmp_path, said("again"))
    text = machine({"loop": {"again": "loop", "done": "!done"}})
    played = scene.play(text, "--max-visits", "1", "--max-steps", "1", exit_code=3)
    assert played.state["reason"] == "max-step-visits-exceeded:loop"


def test_a2_6_an_exit_needs_no_room(tmp_path: Path) -> None:
    """Guardrails are asked before a next step, not before an exit."""
    scene = Scene(tmp_path, said("done"), said("done"))
    flags = ("--max-steps", "2", "--max-visits", "1")
    assert scene.play(PAIR, *flags).state["reason"] == "all-done"


def test_a2_6_a_flag_widens_what_the_recipe_allows(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("broken"), said("complete")] * 4, said("fine"))
    assert scene.play(ROUND, "--max-visits", "5").state["reason"] == "reviewed"


def test_a2_6_resume_goes_on_where_a_limit_stopped(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("broken"), said("complete"), said("fine"))
    scene.play(ROUND, "--max-steps", "2", exit_code=3)
    refused = scene.look(scene.run("resume", "latest").assert_exit(3))
    assert refused.state["reason"] == "max-total-steps"
    assert len(scene.ledger()) == 2
    played = scene.look(scene.run("resume", "latest", "--max-steps", "3").assert_success())
    assert played.state["reason"] == "reviewed"
    assert played.state["machine"]["stepCount"] == 3
    assert {call.session for call in scene.ledger()} == {scene.ledger()[0].session}
