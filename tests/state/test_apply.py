"""The fold: what each event does to the state, and that nothing but the events decides it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.state.definitions import GATED, LINE, LOOP, MACHINE, MOVING, command, workflow
from tests.state.folding import STARTED, Folding


def step_of(run: Folding, name: str) -> dict[str, Any]:
    found: dict[str, Any] = run.document["steps"][name]
    return found


def test_an_attempt_that_was_announced_is_running() -> None:
    run = Folding.of(LINE).begin(about={"model": "opus"})
    step = step_of(run, "One")
    assert (step["status"], step["attempts"], step["model"]) == ("running", 1, "opus")
    assert step["address"] == "One:1.1"
    assert run.ahead == ["step One"], "after a crash it is the next thing to look at"
    assert run.document["engine"]["steps_run"] == 1


@pytest.mark.parametrize(
    ("why", "fields", "ahead", "status", "tries"),
    [
        ("failed", {"rest_s": 5.0}, "rest One", "running", 1),
        ("stopped", {}, "step One", "pending", 0),
        ("void", {}, "step One", "pending", 0),
        ("lost", {"losses": 1}, "step One", "pending", 0),
        ("lost", {"losses": 1, "rest_s": 5.0}, "rest One", "pending", 0),
        ("lost", {"losses": 3, "waits": True}, "lost One", "pending", 0),
        ("no-session", {}, "step One", "running", 0),
        ("reminded", {}, "step One", "running", 0),
    ],
)
def test_an_attempt_that_is_not_the_last_word(
    why: str, fields: dict[str, Any], ahead: str, status: str, tries: int
) -> None:
    run = Folding.of(LINE).begin().cut(why, **fields)
    here = run.state.root.here
    assert here is not None
    assert run.ahead == [ahead]
    step = step_of(run, "One")
    assert (step["status"], step["last_attempt"]) == (status, why)
    assert here.tries == tries, "only the step's own failures count against its retries"
    assert here.attempt == 1
    assert here.losses == fields.get("losses", 0)
    if ahead.startswith("rest"):
        assert run.tasks[0].due == run.now - 1 + 5.0, "counted from the event"
    assert run.begin().finish().ahead == ["step Two"]
    assert step_of(run, "One")["attempts"] == 2
    assert run.document["engine"]["steps_run"] == 1, "attempts are not steps"


def test_losses_in_a_row_are_forgotten_by_a_resume() -> None:
    run = Folding.of(LINE).begin().cut("lost", losses=3, waits=True)
    run.give("run-ended", status="paused", reason="lost", code=6).give("run-resumed")
    assert run.ahead == ["step One"]
    here = run.state.root.here
    assert here is not None
    assert here.losses == 0


def test_a_resume_does_not_count_the_night_but_a_rest_that_is_left() -> None:
    run = Folding.of(LINE).begin().cut("failed", rest_s=500.0)
    run.give("run-ended", status="paused", reason="stopped", code=130)
    run.give("run-resumed", settings={"retry_delay": 2000})
    assert run.ahead == ["rest One"]
    assert run.tasks[0].due == run.now - 1 + 2.0
    assert run.document["settings"] == {"retry_delay": 2000}


def test_a_resume_takes_the_clock_and_the_place_only_if_they_are_new() -> None:
    run = Folding.of(LINE).begin()
    run.give("run-ended", status="paused", reason="interrupted", code=130)
    run.give("run-resumed", clock=["boot-1", 5.0], place="here")
    assert run.document["engine"]["clock"] == ["boot-1", 5.0]
    run.give("run-ended", status="paused", reason="interrupted", code=130).give("run-resumed")
    assert run.document["engine"]["clock"] == ["boot-1", 5.0]
    assert run.document["engine"]["place"] == "here"


def test_a_turn_that_was_cut_off_is_remembered_until_the_session_is_asked_again() -> None:
    run = Folding.of(MACHINE).begin().cut("stopped", cut_off=True)
    assert is_cut_off(run)
    run.begin().cut("stopped")
    assert is_cut_off(run), "another turn that never was changes nothing"
    run.begin().cut("reminded")
    assert not is_cut_off(run), "it was answered"
    run.begin().cut("failed", cut_off=True, rest_s=1.0)
    assert is_cut_off(run)
    run.give("session-chosen", session="s-2", agent="claude-code")
    assert not is_cut_off(run), "the new session knows nothing of it"


def is_cut_off(run: Folding) -> bool:
    here = run.state.root.here
    assert here is not None
    return here.is_cut_off


def test_a_loop_goes_on_behind_an_item_whose_file_was_put_aside() -> None:
    run = moving_loop()
    run.finish("@failed")
    assert run.ahead == ["move Loop[0] In"]
    lifecycle = {"result": "failure", "moved_to": "failed/a.txt"}
    run.fold({"on": "item-moved", "frame": "Loop[0]", "at": run.now, "lifecycle": lifecycle})
    assert run.ending == ("failed", "step 'Loop' failed", 1)
    run.give("run-ended", status="failed", reason="step 'Loop' failed", code=1).give("run-resumed")
    assert run.ahead == ["step Loop[1] In"], "the failed item is not tried again"
    run.finish()
    done = {"result": "success", "moved_to": "done/b.txt"}
    run.fold({"on": "item-moved", "frame": "Loop[1]", "at": run.now, "lifecycle": done})
    assert run.ending == ("failed", "step 'Loop' failed", 1), "put aside is not mended"


@pytest.mark.parametrize("why", ["stopped", "lost"])
def test_a_step_takes_the_time_of_the_attempt_that_was_not_cut_short(why: str) -> None:
    run = Folding.of(LINE).begin().cut(why)
    here = run.state.root.here
    assert here is not None
    assert here.since == run.events[-1]["at"] > here.attempt_since


def test_a_run_that_stopped_has_nothing_running() -> None:
    run = Folding.of(LINE).begin()
    run.give("run-ended", status="paused", reason="interrupted", code=130)
    assert step_of(run, "One")["status"] == "pending"
    assert run.document["status"] == "paused"
    assert "completed_at" not in run.document
    run.give("run-resumed", context={"more": 1})
    assert run.document["status"] == "running"
    assert run.document["context"] == {"more": 1}


def turn(cost: float, **more: Any) -> dict[str, Any]:
    """What an agent's turn leaves; the smaller fields of a result are in every event."""
    tokens = {"input_tokens": 10, "output_tokens": 5}
    return {"agent": "claude-code", "cost_usd": cost, "attempts": 1, **tokens, **more}


def test_a_reminder_counts_and_keeps_what_the_turn_has_cost() -> None:
    unread = turn(0.25, status="failed", exit_code=1, turn={"error": "no outcome"})
    run = Folding.of(MACHINE).begin().cut("reminded", result=unread)
    assert run.document["machine"]["stepRetryCounts"] == {"plan": 1}
    assert "turn" not in step_of(run, "plan")
    here = run.state.root.here
    assert here is not None
    assert here.turn["error"] == "no outcome"
    run.begin().finish("good", result=turn(0.5))
    assert run.document["costs"] == {
        "cost_usd": 0.75, "input_tokens": 20, "output_tokens": 10,
        "turns": 2, "unreported": 0, "tokens_unreported": 0,
    }  # fmt: skip
    assert step_of(run, "plan")["cost_usd"] == 0.75, "the step has cost both turns"
    assert run.begin().document["machine"]["currentStep"] == "work"
    assert run.document["machine"]["stepRetryCounts"] == {"plan": 1}


def test_what_a_turn_does_not_report_is_unknown_and_not_free() -> None:
    run = Folding.of(MACHINE).finish("good", result={"agent": "codex"})
    costs = run.document["costs"]
    assert (costs["cost_usd"], costs["turns"], costs["unreported"]) == (None, 1, 1)
    assert run.finish("good", result=turn(0.5)).document["costs"]["cost_usd"] == 0.5


def test_the_totals_of_a_steps_session_stay_when_a_turn_reports_none() -> None:
    run = Folding.of(GATED).begin()
    frame = run.state.root
    run.give("session-seen", frame, session="s-1", agent="claude-code")
    result = {"status": "failed", "exit_code": 1, "attempts": 1}
    counted = result | turn(0.5, session_totals={"cost_usd": 0.5})
    run.cut("failed", result=counted).begin().cut("failed", result=result | turn(0.1))
    here = run.state.root.here
    assert here is not None
    assert here.session["totals"] == {"cost_usd": 0.5}
    assert run.state.session.totals == {}, "they are not the run's"


def test_denials_are_added_up_over_attempts_and_steps() -> None:
    denial = {"denials": [{"tool": "Bash", "count": 1}]}
    run = Folding.of(MACHINE).begin()
    run.cut("failed", result={"status": "failed", "exit_code": 1, "attempts": 1} | denial)
    run.finish("good", result=denial)
    assert step_of(run, "plan")["denials"] == [{"tool": "Bash", "count": 2}]
    assert run.document["denials"] == [{"step": "plan", "tool": "Bash", "count": 2}]


def test_a_skipped_step_has_no_attempt_and_does_not_count() -> None:
    text = workflow(command("One", ', when: {equals: {left: "a", right: "b"}}') + command("Two"))
    run = Folding.of(text).finish("@skipped", result={"condition": "a = b"})
    assert run.ahead == ["step Two"]
    assert run.document["engine"]["steps_run"] == 0
    assert run.document["engine"]["skipped"] == [
        {"id": "One", "reason": "not wanted", "condition": "a = b"}
    ]
    assert run.document["engine"]["root"]["visits"] == {"One": 1}


def test_a_value_becomes_a_variable_only_if_there_is_one() -> None:
    run = Folding.of(GATED).finish(value="lost")
    assert run.document["context"] == {}
    run = Folding.of(GATED).finish(value=None, has_value=True)
    assert run.document["context"] == {"found": None}


def test_a_session_that_was_seen_is_the_runs() -> None:
    run = Folding.of(MACHINE).begin()
    run.give("session-seen", session="s-1", agent="claude-code", is_own=True)
    machine = run.document["machine"]
    assert (machine["sessionId"], machine["sessionCreated"]) == ("s-1", True)
    run.cut("no-session").give("session-chosen", session="s-2", agent="claude-code")
    machine = run.document["machine"]
    assert (machine["sessionId"], machine["sessionCreated"]) == ("s-2", False)


def test_a_copy_of_a_run_has_no_session() -> None:
    run = Folding.of(MACHINE).begin(about={"session_id": "s-1"})
    run.give("session-seen", session="s-1", agent="claude-code", is_own=True)
    run.give("run-ended", status="paused", reason="interrupted", code=130)
    run.give("run-resumed", copied=True, place="elsewhere")
    assert run.document["machine"]["sessionId"] is None
    assert "session_id" not in step_of(run, "plan")
    assert run.document["engine"]["place"] == "elsewhere"


def moving_loop() -> Folding:
    run = Folding.of(MOVING)
    return run.give("loop-opened", run.tasks[0].frame, items=["a.txt", "b.txt"])


def test_an_items_file_is_moved_before_its_iteration_is_over() -> None:
    run = moving_loop()
    run.finish()
    assert run.ahead == ["move Loop[0] In"]
    moving = {"on": "item-moving", "frame": "Loop[0]", "source": "a.txt", "target": "done/a.txt"}
    run.fold(moving | {"at": run.now, "file": [1, 2]})
    assert run.ahead == ["move Loop[0] In"], "after a crash it is looked at again"
    assert run.state.frames["Loop[0]"].moving == ["a.txt", "done/a.txt", [1, 2]]
    lifecycle = {"result": "success", "moved_to": "done/a.txt"}
    run.fold({"on": "item-moved", "frame": "Loop[0]", "at": run.now, "lifecycle": lifecycle})
    assert run.ahead == ["step Loop[1] In"]
    assert run.document["steps"]["Loop"][0]["lifecycle"] == lifecycle


def test_times_are_those_of_the_events() -> None:
    run = Folding.of(LINE).finish()
    assert run.state.started_at == STARTED
    assert run.state.updated_at == run.now - 1
    run.fold({"on": "gap"})
    assert run.state.updated_at == run.now - 2, "a gap has no time"


def test_the_fold_costs_the_same_whatever_came_before() -> None:
    """Counted in lines of ours that run, which no busy machine changes."""
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=[*range(600)])
    costs = []
    for number in range(501):
        if number and number % 100 == 0:
            costs.append(lines_of(run))
        run.finish().finish()
    assert costs == costs[:1] * 5
    assert costs[0] > 10


def lines_of(run: Folding) -> int:
    """How many lines run in `orchestrate.state` while an item's first step begins and ends."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        if "/orchestrate/state/" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run.begin().cut("stopped")
    finally:
        sys.settrace(before)
    return count
