"""The loop over what is ready: in order, at once, parked, stopped, limited, resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from orchestrate.agents.base import Failure, Question
from orchestrate.engine.prompts import prompt_of
from orchestrate.engine.ready import ready
from orchestrate.engine.runtime import Operator
from orchestrate.engine.step import Step
from orchestrate.errors import ConfigError
from orchestrate.plan.override import with_max_parallel, with_max_restarts, with_max_visits
from orchestrate.state.ballots import cast
from orchestrate.state.codec import Encoder
from orchestrate.state.events import AttemptEnded, Event, GateDecided
from orchestrate.state.model import RunState
from tests.engine.performing import outcome, running
from tests.recipes.fakes import recipe
from tests.state.definitions import CALLING, CHILD, CONTINUES, GATED, MACHINE, PARALLEL
from tests.state.folding import Folding, compiled

COMPLETED = ("completed", "completed", 0)
PARKED = ("paused", "waits for an approval of 'planning'", 6)
# One item's program runs for long; another item asks its agent as soon as that has begun.
BESIDE = """
version: "1.4"
name: beside
steps:
  - name: Each
    for_each:
      items: [works, asks]
      as: item
      parallel: true
      steps:
        - name: Runs
          command: [bash, -c, "if [ ${{item}} = works ]; then touch {begun}; sleep 900; fi;
                               until [ -e {begun} ]; do sleep .05; done"]
        - {{name: Asks, provider: claude, prompt: Do it.}}
"""


def test_a_run_goes_from_its_first_step_to_its_end(tmp_path: Path) -> None:
    with running(tmp_path, compiled(CONTINUES), context={"go": "yes"}) as run:
        assert run.to_end() == COMPLETED
        assert run.agent.steps == ["a", "b", "c", "d"]
        assert [event["on"] for event in run.journal if event["on"].startswith("run-")] == [
            "run-started", "run-ended",
        ]  # fmt: skip
        assert run.document["status"] == "completed"
        assert run.document["seq"] == len(run.journal)


def test_looking_for_what_is_ready_changes_nothing() -> None:
    run = Folding.of(PARALLEL)
    run.give("loop-opened", run.tasks[0].frame, items=["x", "y"])
    run.begin(run.tasks[0].frame).cut("failed", run.tasks[0].frame, rest_s=3.0)
    before = Encoder(run.index).encode(run.state)
    first, second = ready(run.state), ready(run.state)
    assert [(task.kind, task.frame.key) for task in first] == [
        ("rest", "each[0]"),
        ("step", "each[1]"),
    ]
    assert first == second
    assert Encoder(run.index).encode(run.state) == before


def meeting(parties: int) -> Callable[[Question], str]:
    """Answers only when so many are being asked at once."""
    barrier = threading.Barrier(parties)

    def answer(question: Question) -> str:
        barrier.wait(60)
        return question.place

    return answer


def test_items_of_a_parallel_loop_are_performed_at_once(tmp_path: Path) -> None:
    answers = {"each": [meeting(3)]}
    with running(tmp_path, compiled(PARALLEL), answers, context={"items": ["x", "y", "z"]}) as run:
        assert run.to_end() == COMPLETED
        assert run.document["context"]["all"] == ["each[0]", "each[1]", "each[2]"]
        assert run.agent.steps[-1] == "after"


def test_no_more_items_are_performed_at_once_than_are_allowed(tmp_path: Path) -> None:
    at_work = most = 0
    guard = threading.Lock()

    def answer(question: Question) -> str:
        nonlocal at_work, most
        with guard:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.01)
        with guard:
            at_work -= 1
        return "fine"

    program = with_max_parallel(compiled(PARALLEL), 2)
    with running(tmp_path, program, {"each": [answer]}, context={"items": [*"abcdef"]}) as run:
        assert run.to_end() == COMPLETED
    assert most == 2


def test_when_an_item_fails_nothing_new_begins_and_the_others_end(tmp_path: Path) -> None:
    is_asked, has_failed = threading.Event(), threading.Event()

    def answer(question: Question) -> str | Failure:
        if question.place == "each[0]":
            assert is_asked.wait(60)
            return Failure("crash", "no")
        is_asked.set()
        assert has_failed.wait(60)
        return "fine"

    program = with_max_parallel(compiled(PARALLEL), 2)
    with running(tmp_path, program, {"each": [answer]}, context={"items": [*"abcd"]}) as run:

        def hear(_: Event, state: RunState) -> None:
            if state.ending is not None:
                has_failed.set()

        run.store.listeners.append(hear)
        assert run.to_end() == ("failed", "step 'each' failed", 1)
        assert sorted(run.agent.steps) == ["each[0]", "each[1]"]
        assert run.document["for_each"]["each"]["completed_indices"] == [1]
        run.record("run-resumed")
        assert [task.frame.key for task in ready(run.store.state)] == ["each[0]", "each[2]"]


def test_an_item_that_is_still_made_ready_does_not_begin_when_another_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where agents that run may finish their turn."""
    has_failed = threading.Event()

    def make_slowly(step: Step, *more: Any, **named: Any) -> str:
        assert step.frame.key == "each[0]" or has_failed.wait(60)
        return prompt_of(step, *more, **named)

    monkeypatch.setattr("orchestrate.engine.ops.ask.prompt_of", make_slowly)
    answers = {"each": [Failure("crash", "no")]}
    with running(tmp_path, compiled(PARALLEL), answers, context={"items": [*"ab"]}) as run:

        def hear(_: Event, state: RunState) -> None:
            if state.ending is not None:
                has_failed.set()

        run.store.listeners.append(hear)
        assert run.to_end() == ("failed", "step 'each' failed", 1)
        assert run.agent.steps == ["each[0]"]
        started = [event["frame"] for event in run.journal if event["on"] == "step-started"]
        assert started == ["each[0]"]


def test_a_fault_of_ours_ends_what_runs(tmp_path: Path) -> None:
    """It does not wait for other items' programs, which may take hours."""
    begun = tmp_path / "begun"

    def refuse(question: Question) -> str:
        assert begun.exists()
        raise ZeroDivisionError

    program = compiled(BESIDE.format(begun=begun))
    with running(tmp_path, program, {"Asks": [refuse]}) as run:
        with pytest.raises(ZeroDivisionError):
            run.to_end()
        (ended,) = (event for event in run.journal if event["on"] == "attempt-ended")
        assert (ended["frame"], ended["result"]["exit_code"]) == ("Each[0]", 130)


def test_an_item_that_rests_is_dropped_when_another_one_fails(tmp_path: Path) -> None:
    rests = threading.Event()

    def answer(question: Question) -> Failure:
        if question.place == "each[1]":
            return Failure("overloaded", "come back in an hour", retry_at=2e9)
        assert rests.wait(60)
        return Failure("crash", "no")

    program = compiled(PARALLEL.replace("collect: all", "on_error: continue"))
    with running(tmp_path, program, {"each": [answer]}, context={"items": [*"ab"]}) as run:

        def hear(event: Event, _: RunState) -> None:
            if isinstance(event, AttemptEnded):
                rests.set()

        run.store.listeners.append(hear)
        assert run.to_end() == COMPLETED
        assert [e["frame"] for e in run.journal if e["on"] == "item-stopped"] == ["each[1]"]
        assert run.agent.steps[-1] == "after"


def test_a_gate_parks_the_run_when_nobody_is_there(tmp_path: Path) -> None:
    with running(tmp_path, compiled(GATED)) as run:
        assert run.to_end() == PARKED
        assert run.agent.steps == ["a"]
        (gate,) = run.document["approvals"]
        assert (gate["status"], gate["stage"]) == ("pending", "planning")
        # Somebody approves from elsewhere, and the run is resumed.
        cast(run.store.run.root, GateDecided("", gate["node"], 1, run.rt.now(), "approved", "ann"))
        run.record("run-resumed")
        assert run.to_end() == COMPLETED
        assert run.agent.steps == ["a", "b"]
        assert run.document["approvals"][0]["decided_by"] == "ann"


class Decider(Operator):
    """Somebody at the terminal who has decided already."""

    def __init__(self, decision: Literal["approved", "denied"]) -> None:
        self._decision = decision

    def decide_gate(
        self,
        gate: str,
        prompt: str,
        seconds_left: float | None,
        is_decided: Callable[[], object],
    ) -> tuple[Literal["approved", "denied"], str]:
        assert not is_decided()
        assert gate == "stage 'planning'"
        assert prompt.startswith("Go on?")
        assert prompt.endswith("| fine"), "with the answer that is to be judged"
        assert seconds_left is not None
        assert 0 < seconds_left <= 60
        return self._decision, "because"


@pytest.mark.parametrize(
    ("decision", "ending", "steps"),
    [
        ("approved", COMPLETED, ["a", "b"]),
        ("denied", ("failed", "stage 'planning' was denied", 1), ["a"]),
    ],
)
def test_a_person_at_the_terminal_decides(
    tmp_path: Path,
    decision: Literal["approved", "denied"],
    ending: tuple[str, str, int],
    steps: list[str],
) -> None:
    with running(tmp_path, compiled(GATED), operator=Decider(decision)) as run:
        assert run.to_end() == ending
        assert run.agent.steps == steps
        assert run.document["approvals"][0]["message"] == "because"


def test_a_gate_that_is_overdue_is_decided_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, compiled(GATED)) as run:
        assert run.to_end() == PARKED
        later = run.rt.now() + 61
        monkeypatch.setattr(run.rt, "now", lambda: later)
        run.record("run-resumed")
        assert run.to_end() == ("failed", "stage 'planning' was denied by timeout", 1)


def test_a_stop_lets_the_step_end_and_begins_no_other(tmp_path: Path) -> None:
    program = compiled(CONTINUES)
    with running(tmp_path, program, context={"go": "yes"}) as run:

        def interrupted(question: Question) -> str:
            run.rt.stop.request(signal.SIGINT)
            return "fine"

        run.agent.answers["b"] = [interrupted]
        status, _, code = run.to_end()
        assert (status, code) == ("paused", 130)
        assert run.agent.steps == ["a", "b"]
        assert run.document["steps"]["b"]["status"] == "completed"
        assert run.document["status"] == "paused"


def test_a_retry_is_made_when_its_time_has_come(tmp_path: Path) -> None:
    text = recipe("""
        steps: [{id: a, agent: helper, prompt: "a",
                 retry: {max_attempts: 3, initial_delay: 1, backoff: linear}}]
    """)
    busy = Failure("overloaded", "come back later")
    with running(tmp_path, compiled(text), {"a": [busy, busy, "fine"]}) as run:
        rests: list[float] = []
        clock = run.rt.now()

        def rest(seconds: float) -> bool:
            nonlocal clock
            rests.append(seconds)
            clock += seconds
            return False

        run.rt.rest = rest  # type: ignore[method-assign]
        run.rt.now = lambda: clock  # type: ignore[method-assign]
        run.rt.jitter = lambda: 0.0  # type: ignore[method-assign]
        assert run.to_end() == COMPLETED
        assert len(run.agent.asked) == 3
        assert len(rests) == 2
        assert all(second > 0 for second in rests)
        assert run.document["steps"]["a"]["attempts"] == 3


@pytest.mark.parametrize("most", [1, 3])
def test_a_step_is_not_visited_more_often_than_it_may(tmp_path: Path, most: int) -> None:
    program = with_max_visits(compiled(MACHINE), most)
    with running(tmp_path, program, {"plan": [outcome("again")]}) as run:
        assert run.to_end() == ("failed", "max-step-visits-exceeded:plan", 3)
        assert run.agent.steps == ["plan"] * most


def test_a_restart_has_a_new_session_and_a_limit(tmp_path: Path) -> None:
    program = with_max_restarts(compiled(MACHINE), 2)
    answers = {"plan": [outcome("good")], "work": [outcome("fresh")]}
    with running(tmp_path, program, answers) as run:
        status, reason, code = run.to_end()
        assert (status, code) == ("failed", 3)
        assert "restart" in reason
        sessions = [question.session for question in run.agent.asked]
        assert len(run.agent.asked) == 6
        assert len(set(sessions)) == 3, "two steps share each of them"
        assert [question.is_new_session for question in run.agent.asked] == [True, False] * 3


def test_a_call_that_takes_too_long_ends_between_its_steps(tmp_path: Path) -> None:
    text = CALLING.replace(", retry: {max_attempts: 2, initial_delay: 5}", "")
    with running(tmp_path, compiled(text, child=CHILD)) as run:
        began = run.rt.now()
        clock = began

        def slow(question: Question) -> str:
            nonlocal clock
            clock += 61
            return "fine"

        run.agent.answers["one"] = [slow]
        run.rt.now = lambda: clock  # type: ignore[method-assign]
        assert run.to_end() == ("failed", "step 'call' failed", 1)
        assert len(run.agent.asked) == 1
        assert run.document["steps"]["call"]["exit_code"] == 124


def test_an_error_that_stops_the_engine_pauses_the_run(tmp_path: Path) -> None:
    def refuse(question: Question) -> str:
        raise ConfigError("the disk is gone", "bring it back")

    with running(tmp_path, compiled(MACHINE), {"plan": [refuse]}) as run:
        with pytest.raises(ConfigError, match="the disk is gone"):
            run.to_end()
        document = run.document
        assert (document["status"], document["reason"]) == ("paused", "the disk is gone")
        assert document["steps"]["plan"]["status"] == "pending"
