"""A step that is to be performed: its names, limits and retries, and the events that it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.engine.faults import StepFault
from orchestrate.engine.step import Step
from orchestrate.errors import StateError
from orchestrate.plan.override import with_step_timeout
from orchestrate.state.events import event_to_json
from orchestrate.state.result import StepResult
from tests.engine.performing import Run, running
from tests.recipes.fakes import recipe
from tests.state.definitions import CALLING, CHILD, LINE, LOOP, PARALLEL, command, workflow
from tests.state.folding import compiled


def step_in(run: Run, key: str = "") -> Step:
    return Step(run.rt, run.store.state.frames[key])


def in_loop(run: Run) -> Step:
    run.record("loop-opened", frame="", node="Loop", visit=1, items=["a", "b", "c"])
    return step_in(run, "Loop[0]")


def test_every_attempt_has_a_name_and_logs_of_its_own(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LOOP)) as run:
        step = in_loop(run)
        assert step.address.text == "Loop[0]/In:1.1"
        assert step.log("stdout").parent == run.store.run.logs
        first = step.log("stdout").name
        step.announce()
        run.store.record(step.ended("stopped", step.result("failed", 1)))
        again = step_in(run, "Loop[0]")
        assert again.address.text == "Loop[0]/In:1.2"
        assert again.attempt_id != step.attempt_id
        assert again.log("stdout").name != first


def test_an_attempt_is_announced_once(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        step = step_in(run)
        assert not step.is_announced
        step.announce(StepResult(model="opus"))
        step.announce(StepResult(model="other"))
        (started,) = [event for event in run.journal if event["on"] == "step-started"]
        assert started["about"] == {"model": "opus"}
        assert run.store.due_in_s() is not None, "others see it soon"
        run.store.checkpoint()
        assert run.document["steps"]["One"]["status"] == "running"
        found = step_in(run)
        assert found.is_announced, "whoever comes next finds it so"
        assert found.attempt_id == step.attempt_id


def test_steps_that_differ_in_case_only_have_different_logs(tmp_path: Path) -> None:
    text = workflow(command("Check") + command("CHECK"))
    with running(tmp_path, compiled(text)) as run:
        first = step_in(run)
        first.announce()
        run.store.record(first.finished("@ok", first.result("completed", 0)))
        second = step_in(run)
        assert first.log_name.casefold() != second.log_name.casefold()


def test_a_limit_is_the_steps_own_or_the_plans(tmp_path: Path) -> None:
    text = workflow(command("One", ", timeout_sec: 7") + command("Two"))
    with running(tmp_path, compiled(text)) as run:
        assert step_in(run).timeout_s == 7
    text = recipe("""
        steps: [{id: a, agent: helper, prompt: "a", timeout: 7}]
    """)
    for changed, limit in [(text, 7), (text.replace(", timeout: 7", ""), 11)]:
        with running(tmp_path, with_step_timeout(compiled(changed), 11)) as run:
            assert step_in(run).timeout_s == limit


def test_a_step_has_no_more_time_than_the_call_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path, compiled(CALLING, child=CHILD)) as run:
        context = {"item": ["z"]}
        run.record(
            "call-opened", frame="", node="call", visit=1, plan="child.yaml", context=context
        )
        began = run.store.state.frames["call()"].began
        for passed, left in [(0, 60), (45, 15), (60, 0.001), (90, 0.001)]:
            monkeypatch.setattr(run.rt, "now", lambda now=began + passed: now)
            assert step_in(run, "call()").timeout_s == pytest.approx(left)


def test_only_asks_are_tried_again_by_default(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        assert step_in(run).retry is None
    with running(tmp_path, compiled(PARALLEL), context={"items": ["x"]}) as run:
        run.record("loop-opened", frame="", node="each", visit=1, items=["x"])
        retry = step_in(run, "each[0]").retry
        assert retry is not None
        assert retry.when == "outage"


def test_a_result_says_when_and_how_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        monkeypatch.setattr(run.rt, "now", lambda: 1000.0)
        step = step_in(run)
        step.announce()
        monkeypatch.setattr(run.rt, "now", lambda: 1002.5)
        assert step.result("completed", 0, StepResult(output="x")).to_json() == {
            "status": "completed",
            "exit_code": 0,
            "started_at": "1970-01-01T00:16:40.000Z",
            "completed_at": "1970-01-01T00:16:42.500Z",
            "duration_ms": 2500,
            "attempts": 1,
            "address": "One:1.1",
            "output": "x",
        }


@pytest.mark.parametrize(
    ("ended_at", "end"), [(None, 1010), (1005, 1005), (990, 1000), (2000, 1010)]
)
def test_an_end_lies_between_the_beginning_and_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_at: float | None, end: float
) -> None:
    """The keeper has seen it on the wall clock, which may have jumped meanwhile."""
    with running(tmp_path, compiled(LINE)) as run:
        monkeypatch.setattr(run.rt, "now", lambda: 1000.0)
        step = step_in(run)
        step.announce()
        monkeypatch.setattr(run.rt, "now", lambda: 1010.0)
        step.ended_at = ended_at
        assert step.end_at == end


def test_a_fault_becomes_the_steps_result(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        step = step_in(run)
        fault = StepFault("the file is missing", {"path": "a.txt"}, exit_code=3)
        event = event_to_json(step.failed(fault))
        assert event["label"] == "@failed"
        assert event["result"]["error"] == {
            "message": "the file is missing", "exit_code": 3, "context": {"path": "a.txt"},
        }  # fmt: skip
        assert (event["result"]["status"], event["result"]["exit_code"]) == ("failed", 3)
        run.store.record(step.failed(fault))
        assert run.store.state.ending is not None


def test_an_answer_that_cannot_be_kept_stops_the_run_and_leaves_no_half(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        step = step_in(run)
        step.keep_answer("whole")
        assert step.log("answer.txt").read_text() == "whole"
        assert step.log("answer.txt").stat().st_mode & 0o777 == 0o600
        step.log("prompt.txt").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StateError, match=r"cannot write .*prompt\.txt"):
            step.keep_prompt("whole")
        assert not (tmp_path / "elsewhere").exists(), "no link is followed"
