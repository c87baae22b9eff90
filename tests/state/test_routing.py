"""Where a label leads: over the routes of every dialect, into loops and calls and out of them."""

from __future__ import annotations

import pytest

from orchestrate.errors import StateError
from orchestrate.plan.nodes import Goto, Target
from orchestrate.plan.override import with_on_error
from orchestrate.plan.settings import PARALLEL_ITEMS
from orchestrate.state.calls import call_deadline, expired_calls
from tests.state.definitions import (
    CALLING,
    CHILD,
    CONTINUES,
    GATED,
    JUMPS,
    LENIENT,
    LINE,
    LOOP,
    MACHINE,
    PARALLEL,
    command,
    workflow,
)
from tests.state.folding import Folding, compiled

COMPLETED = ("completed", "completed", 0)


def walk(text: str, labels: str) -> tuple[list[str], tuple[str, str, int] | None]:
    """The steps that a run of single steps passes, and its end."""
    run = Folding.of(text)
    path = []
    for label in labels.split():
        path.append(run.ahead[0].removeprefix("step "))
        run.finish(label)
    return path, run.ending


@pytest.mark.parametrize(
    ("text", "labels", "path", "ending"),
    [
        (LINE, "@ok @ok", "One Two", COMPLETED),
        (LINE, "@failed", "One", ("failed", "step 'One' failed", 1)),
        (LINE, "@ok @failed", "One Two", ("failed", "step 'Two' failed", 1)),
        (LINE, "@lost @lost @ok @ok", "One One One Two", COMPLETED),
        (LENIENT, "@failed @failed", "One Two", COMPLETED),
        (JUMPS, "@failed @ok @ok", "Check Mend Check", ("completed", "_end", 0)),
        (JUMPS, "@failed @failed", "Check Mend", ("failed", "step 'Mend' failed", 1)),
        (MACHINE, "good good", "plan work", ("completed", "finished", 0)),
        (MACHINE, "again good bad bad", "plan plan work plan", ("completed", "impossible", 0)),
        (MACHINE, "other", "plan", ("completed", "user-provided-other", 0)),
        (MACHINE, "@invalid", "plan", ("failed", "orchestration-error", 2)),
        (MACHINE, "@failed", "plan", ("failed", "the agent failed in step 'plan'", 4)),
        (MACHINE, "good", "plan", None),
        (CONTINUES, "@failed @skipped @ok @ok", "a b c d", COMPLETED),
        (CONTINUES, "@ok @failed", "a b", ("failed", "step 'b' failed", 1)),
        (CONTINUES, "@ok @ok @failed", "a b c", ("completed", "partial", 0)),
    ],
)  # fmt: skip
def test_labels_lead_along_the_routes(
    text: str, labels: str, path: str, ending: tuple[str, str, int] | None
) -> None:
    assert walk(text, labels) == (path.split(), ending)


def test_a_failure_that_is_counted_lets_the_run_go_on_and_fail() -> None:
    run = Folding(with_on_error(compiled(LINE), "continue")).finish("@failed")
    assert run.ahead == ["step Two"]
    assert run.finish().ending == ("failed", "some steps failed", 1)


def test_a_run_without_failures_does_not_fail() -> None:
    run = Folding(with_on_error(compiled(LINE), "continue")).finish().finish()
    assert run.ending == COMPLETED


def test_a_lost_attempt_is_the_same_visit_and_no_try() -> None:
    run = Folding.of(LINE).finish("@lost")
    here = run.state.root.here
    assert here is not None
    assert (here.phase, here.visit, here.attempt, here.tries) == ("arriving", 1, 1, 0)


def test_every_move_is_told() -> None:
    moves: list[tuple[str, str, str, Target]] = []
    run = Folding.of(JUMPS)
    run.index.hear_move = lambda *move: moves.append(move)
    run.finish("@failed").finish()
    assert moves == [
        ("main.yaml", "Check", "@failed", Goto("Mend")),
        ("main.yaml", "Mend", "@ok", Goto("Check")),
    ]


def test_a_person_may_let_the_run_go_on_behind_a_failure() -> None:
    run = Folding.of(LINE).finish("@failed", choice="continue")
    assert run.ahead == ["step Two"]
    assert run.finish().ending == COMPLETED


def test_a_step_that_ended_the_run_is_where_a_resume_goes_on() -> None:
    run = Folding.of(LINE).finish().finish("@failed")
    assert run.ahead == []
    run.give("run-ended", status="failed", reason="step 'Two' failed", code=1)
    run.give("run-resumed")
    assert run.ahead == ["step Two"]
    assert run.ending is None
    assert run.finish().ending == COMPLETED
    assert run.document["engine"]["root"]["visits"] == {"One": 1, "Two": 1}, "the same visit again"


# Loops.


def test_items_run_one_after_the_other() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=["a", "b", "c"])
    seen = []
    while run.ahead != ["step After"]:
        seen += run.ahead
        run.finish()
    assert seen == [f"step Loop[{n}] {name}" for n in range(3) for name in ("In", "Out")]
    assert [[*item] for item in run.document["steps"]["Loop"]] == [["In", "Out"]] * 3
    assert run.document["for_each"]["Loop"]["completed_indices"] == [0, 1, 2]
    assert run.finish().ending == COMPLETED


def test_a_loop_over_nothing_is_done() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=[])
    assert run.ahead == ["step After"]
    assert run.document["steps"] == {"Loop": []}


def test_a_jump_out_of_a_loop_leaves_its_other_items() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=["a", "b", "c"])
    run.finish().finish("@failed")
    assert run.ahead == ["step After"]
    progress = run.document["for_each"]["Loop"]
    assert (progress["completed_indices"], progress["failed_indices"]) == ([0], [0])
    assert [*run.state.frames] == [""]


def test_a_failed_item_ends_the_run_and_is_where_a_resume_goes_on() -> None:
    run = Folding.of(LOOP)
    run.give("loop-opened", run.tasks[0].frame, items=["a", "b", "c"])
    run.finish().finish().finish("@failed")
    assert run.ending == ("failed", "step 'Loop' failed", 1)
    run.give("run-ended", status="failed", reason="step 'Loop' failed", code=1)
    run.give("run-resumed")
    assert run.ahead == ["step Loop[1] In"]


def test_a_loop_that_is_entered_again_has_new_frames() -> None:
    text = workflow(
        """\
  - name: Loop
    for_each: {items: [a], steps: [{name: In, command: ["true"]}]}
"""
        + command("Again", ", on: {success: {goto: Loop}}")
    )
    run = Folding.of(text)
    keys = []
    for _ in range(3):
        run.give("loop-opened", run.tasks[0].frame, items=["a"])
        keys += run.ahead
        run.finish().finish()
    assert keys == ["step Loop[0] In", "step Loop:2[0] In", "step Loop:3[0] In"]


def test_items_of_a_parallel_loop_are_open_at_once() -> None:
    run = Folding.of(PARALLEL)
    run.give("loop-opened", run.tasks[0].frame, items=["x", "y", "z"])
    assert run.ahead == [f"step each[{n}] each" for n in range(3)]
    for value in ("Z", "Y", "X"):  # the last item is the first to end
        run.finish("@ok", run.tasks[-1].frame, value=value, has_value=True)
    assert run.ahead == ["step after"]
    assert run.document["context"]["all"] == ["X", "Y", "Z"]


def test_no_more_items_are_open_than_may_run_at_once() -> None:
    run = Folding.of(PARALLEL)
    most = PARALLEL_ITEMS
    run.give("loop-opened", run.tasks[0].frame, items=[*range(most + 2)])
    assert len(run.tasks) == most
    run.finish("@ok", run.tasks[0].frame)
    assert run.ahead[-1] == f"step each[{most}] each"


def test_a_failed_item_makes_the_others_useless() -> None:
    run = Folding.of(PARALLEL)
    run.give("loop-opened", run.tasks[0].frame, items=["x", "y", "z"])
    run.begin(run.tasks[2].frame).finish("@failed", run.tasks[1].frame)
    assert run.ending == ("failed", "step 'each' failed", 1)
    assert run.ahead == [], "nothing new begins when the run is ending"


def test_a_failed_item_of_a_tolerated_loop_drops_the_others() -> None:
    text = PARALLEL.replace("collect: all", "collect: all, on_error: continue")
    run = Folding.of(text)
    run.give("loop-opened", run.tasks[0].frame, items=["x", "y", "z"])
    run.finish("@failed", run.tasks[1].frame)
    assert run.ahead == ["drop each[0] each", "drop each[2] each"]
    for task in run.tasks:
        run.fold({"on": "item-stopped", "frame": task.frame.key, "at": run.now})
    assert run.ahead == ["step after"]


# Calls.


def calling() -> Folding:
    run = Folding.of(CALLING, child=CHILD)
    return run.give("call-opened", run.tasks[0].frame, plan="child.yaml", context={"item": ["z"]})


def through(run: Folding) -> Folding:
    """The called plan to its end."""
    run.finish(value="F", has_value=True)
    run.give("loop-opened", run.tasks[0].frame, items=["z"])
    return run.finish(value="Z", has_value=True)


def test_a_called_plan_has_a_context_of_its_own_and_returns_it() -> None:
    run = calling()
    assert run.ahead == ["step call() one"]
    through(run)
    assert run.ahead == ["step after"]
    assert run.document["context"] == {"once": {"item": ["z"], "found": "F", "all": ["Z"]}}
    result = run.document["steps"]["call"]
    assert (result["status"], result["exit_code"], result["recipe"]) == (
        "completed",
        0,
        "child.yaml",
    )
    assert [*result["steps"]] == ["one", "each"]
    assert "error" not in result
    assert result["duration_ms"] == 5000, "a second an event"
    assert [*run.state.frames] == [""]


def test_steps_count_for_every_plan_around_them() -> None:
    run = calling()
    assert (run.state.root.count, run.state.frames["call()"].count) == (1, 0)
    run.finish()
    assert (run.state.root.count, run.state.frames["call()"].count) == (2, 1)
    run.give("loop-opened", run.tasks[0].frame, items=["y", "z"])
    run.finish()
    assert (run.state.root.count, run.state.frames["call()"].count) == (3, 2)
    assert run.state.steps_run == 3


def test_a_failure_in_a_called_plan_ends_the_run_and_keeps_both_cursors() -> None:
    run = calling().finish("@failed")
    stack = "step 'one' failed (in main.yaml → child.yaml)"
    assert run.ending == ("failed", stack, 1)
    result = run.document["steps"]["call"]
    assert result["status"] == "failed"
    assert result["error"]["context"]["stack"] == ["main.yaml", "child.yaml"]
    run.give("run-ended", status="failed", reason=stack, code=1).give("run-resumed")
    assert run.ahead == ["step call() one"]
    assert run.document["steps"]["call"]["status"] == "running"
    assert through(run).ahead == ["step after"]


def test_a_transient_failure_of_a_called_plan_is_tried_again() -> None:
    run = calling()
    error = {"message": "busy", "exit_code": 1, "context": {"kind": "overloaded"}}
    run.finish("@failed", result={"error": error})
    assert run.ending is None
    assert run.ahead == ["rest call"]
    run.give("call-opened", run.tasks[0].frame, plan="child.yaml", context={"item": ["z"]})
    assert run.ahead == ["step call@2() one"]
    run.finish("@failed", result={"error": error})
    assert run.ending is not None, "two attempts are allowed"


def test_a_call_that_takes_too_long_is_given_up() -> None:
    text = CALLING.replace(", retry: {max_attempts: 2, initial_delay: 5}", "")
    run = Folding.of(text, child=CHILD)
    run.give("call-opened", run.tasks[0].frame, plan="child.yaml", context={"item": ["z"]})
    run.begin()
    run.give("call-expired", run.state.root, timeout_s=60.0)
    assert run.ending == ("failed", "step 'call' failed", 1)
    result = run.document["steps"]["call"]
    assert (result["status"], result["exit_code"]) == ("failed", 124)
    assert "timed out after 60 s" in result["error"]["message"]
    assert [*run.state.frames] == [""]


# Gates and restarts.


def at_gate() -> Folding:
    run = Folding.of(GATED).finish(value="it", has_value=True)
    run.give("gate-opened", run.tasks[0].frame, stage="planning", prompt="Go on?", default="deny",
             expires_at=run.now + 60)  # fmt: skip
    assert run.ahead == ["ask planning"]
    return run


def decide(run: Folding, decision: str, by: str, message: str = "") -> Folding:
    return run.give("gate-decided", run.state.root, decision=decision, by=by, message=message)


def test_an_approval_goes_on() -> None:
    run = decide(at_gate(), "approved", "ann", "fine")
    assert run.ahead == ["step b"]
    (gate,) = run.document["approvals"]
    assert (gate["status"], gate["decided_by"], gate["message"]) == ("approved", "ann", "fine")
    assert [stage["status"] for stage in run.document["stages"]] == ["completed", "pending"]
    assert run.state.root.approval == "fine"


@pytest.mark.parametrize(
    ("by", "reason"),
    [("ann", "stage 'planning' was denied"), ("timeout", "stage 'planning' was denied by timeout")],
)
def test_a_denial_ends_the_run(by: str, reason: str) -> None:
    assert decide(at_gate(), "denied", by).ending == ("failed", reason, 1)


def test_a_restart_begins_afresh_and_keeps_what_was_done() -> None:
    run = Folding.of(MACHINE).finish("good").finish("fresh")
    assert run.ahead == []
    assert run.state.restart == "main.yaml"
    run.give("restarted", plan="main.yaml", session=None)
    assert run.ahead == ["step restart-1 plan"]
    document = run.document
    assert document["machine"]["stepVisitCounts"] == {}
    assert (document["machine"]["stepCount"], document["machine"]["restarts"]) == (0, 1)
    assert document["machine"]["currentStep"] == "plan"
    assert [*document["steps"]] == ["plan", "work"]
    assert document["engine"]["earlier_visits"] == {"plan": 1, "work": 1}
    assert run.finish("good").finish("good").ending == ("completed", "finished", 0)


# A journal that does not fit.


def test_an_event_that_does_not_fit_the_state_is_refused() -> None:
    run = Folding.of(LINE)
    finished = {"on": "step-finished", "at": 1.0, "label": "@ok", "result": {"status": "completed"}}
    for where, why in [
        ({"frame": "Loop[0]", "node": "One", "visit": 1}, "there is no frame 'Loop\\[0\\]'"),
        ({"frame": "", "node": "Two", "visit": 1}, "it is at visit 1 of 'One'"),
        ({"frame": "", "node": "One", "visit": 2}, "it is at visit 1 of 'One'"),
    ]:
        with pytest.raises(StateError, match=why):
            run.fold(finished | where)
    run.finish().finish()
    with pytest.raises(StateError, match="it is at nowhere"):
        run.fold(finished | {"frame": "", "node": "Two", "visit": 1})


# The time of a call, while an agent in it waits for a slot or for its account.


_HEAD = "name: trial\ndescription: d\nversion: 1.0.0\n"


def _timed() -> Folding:
    call = "{id: call, type: recipe, recipe: child.yaml, timeout: 100}"
    asks = "{id: one, agent: helper, prompt: p}"
    run = Folding.of(f"{_HEAD}steps: [{call}]\n", child=f"{_HEAD}steps: [{asks}]\n")
    return run.give("call-opened", run.tasks[0].frame, plan="child.yaml", context={})


def _deadline(run: Folding) -> float | None:
    return call_deadline(run.index, run.tasks[0].frame)


@pytest.mark.parametrize("why", ["slot", "quota"])
def test_a_wait_does_not_count_towards_the_time_of_the_call_around_it(why: str) -> None:
    run = _timed()
    opened, frame = run.now - 1, run.tasks[0].frame
    assert _deadline(run) == opened + 100
    run.give("call-waits", frame, at=opened + 10, why=why, agent="a", until=opened + 500, ahead=2)
    assert _deadline(run) is None, "nothing runs out while it waits"
    assert [*expired_calls(run.index, run.state, opened + 400)] == []
    run.give("call-waits", frame, at=opened + 90, why="slot", agent="a", ahead=1)
    run.begin(frame, at=opened + 510)
    assert _deadline(run) == opened + 600, "90 of 100 seconds are left"
    assert [*expired_calls(run.index, run.state, opened + 600)]


def test_a_night_in_a_wait_is_counted_once() -> None:
    run = _timed()
    opened, frame = run.now - 1, run.tasks[0].frame
    run.give("call-waits", frame, at=opened + 10, why="quota", agent="a", until=opened + 50)
    run.give("run-ended", at=opened + 20, status="paused", reason="interrupted", code=130)
    run.give("run-resumed", at=opened + 1020)
    run.begin(run.tasks[0].frame, at=opened + 1050)
    assert _deadline(run) == opened + 100 + 1000 + 40


def test_waits_of_parallel_items_that_overlap_are_one() -> None:
    items = '{id: each, foreach: "{{items}}", parallel: true, agent: helper, prompt: p}'
    child = f"{_HEAD}context: {{items: [1, 2]}}\nsteps: [{items}]\n"
    call = "{id: call, type: recipe, recipe: child.yaml, timeout: 100}"
    run = Folding.of(f"{_HEAD}steps: [{call}]\n", child=child)
    context = {"items": [1, 2]}
    run.give("call-opened", run.tasks[0].frame, plan="child.yaml", context=context)
    opened = run.now - 1
    run.give("loop-opened", run.tasks[0].frame, items=[1, 2])
    one, two = (task.frame for task in run.tasks)
    run.give("call-waits", one, at=opened + 10, why="slot", agent="a")
    run.give("call-waits", two, at=opened + 20, why="slot", agent="a")
    run.begin(one, at=opened + 30)
    assert _deadline(run) is None
    run.begin(two, at=opened + 50)
    assert call_deadline(run.index, two) == opened + 140
