"""The wall clock may jump by years, forward or back, at any time: that changes no result.

The command's own wall clock is made to jump (`launcher`); the keeper's deadlines and all waiting
are on clocks that the kernel does not let jump, and those are the real ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises.agent_shapes import CALLING, HELPER, RECIPE, STAGED, recipe
from tests.promises.judging import check_same
from tests.promises.lanes import Lane, Lanes
from tests.promises.processes import kill, wait_until
from tests.promises.shapes import LINEAR, NESTED, RETRYING, WAITING, Shape, act
from tests.promises.trials import KILLED, PARKED, Trial

YEAR_S = 365 * 86400.0
JUMPS = (20 * YEAR_S, -20 * YEAR_S)


@dataclass(frozen=True)
class Moment:
    """A shape that stays in some phase for about a second, and how to see that it is there."""

    name: str
    shape: Shape
    is_here: Callable[[Trial], object]
    # Nothing in it is measured but by others.
    is_easy: bool = False


def has(kind: str, number: int = 1) -> Callable[[Trial], bool]:
    return lambda trial: sum(event["on"] == kind for event in trial.events()) >= number


def one_step(name: str, step: str, exit_code: int = 0) -> Shape:
    return Shape(
        name,
        f"""
        version: "1.1"
        name: {name}
        steps:
          - {step}
          - {{name: After, command: {act("After")}}}
        """,
        exit_code=exit_code,
        files={"replies/.keep": ""},
    )


# Inside a call that may take a while, a step rests before it is tried again.
CALL = Shape(
    "call",
    recipe("""
        steps:
          - {id: call, type: recipe, recipe: child.yaml, timeout: 30, output: x}
          - {id: after, agent: helper, prompt: "STEP:after {{x}}"}
        """),
    files={
        **HELPER,
        "child.yaml": recipe("""
            steps:
              - {id: flaky, agent: helper, prompt: "STEP:flaky", output: y,
                 retry: {max_attempts: 2, initial_delay: 1}}
            """),
    },
    answers={"flaky": "count tries; enough tries 1", "after": "echo end"},
)

MOMENTS = (
    Moment(
        "a running step",
        one_step("running", f"{{name: Long, command: {act('Long', '-', 'sleep 0.8')},"
                 " timeout_sec: 20}"),
        has("step-started"),
        is_easy=True,
    ),
    Moment(
        "a step that times out",
        one_step("slow", f"{{name: Long, command: {act('Long', '-', 'sleep 30')},"
                 " timeout_sec: 1.2, on: {failure: {goto: After}}}"),
        has("step-started"),
    ),
    Moment(
        "a retry's rest",
        one_step("resting", f"{{name: Flaky, command: "
                 f"{act('Flaky', '-', 'count n; enough n 1')}, "
                 "retries: {max: 2, delay_ms: 900}}"),
        has("attempt-ended"),
    ),
    Moment(
        "a wait that ends well",
        one_step("waiting", "{name: Await, wait_for: {glob: \"replies/*.txt\", timeout_sec: 20,"
                 " poll_ms: 20}}"),
        has("step-started"),
        is_easy=True,
    ),
    Moment(
        "a wait that times out",
        one_step("missed", "{name: Await, wait_for: {glob: \"never/*.txt\", timeout_sec: 1.2,"
                 " poll_ms: 20}, on: {failure: {goto: After}}}"),
        has("step-started"),
    ),
    Moment("a call that rests inside", CALL, has("attempt-ended")),
)  # fmt: skip


def play(trial: Trial, moment: Moment, jump: float, lane: Lane, *, dies: bool) -> int:
    """Run it; at its moment the clock jumps, and the run may be killed and resumed after that."""
    trial.clock = trial.top / "clock"
    trial.clock.write_text("0", "ascii")

    def strike(pid: int) -> None:
        wait_until(lambda: moment.is_here(trial), f"never in {moment.name}")
        time.sleep(0.1)
        set_clock(trial, jump)
        if dies:
            kill(pid)
        time.sleep(0.3)
        reply = trial.workspace / "replies"
        if reply.is_dir():
            (reply / "answer.txt").write_text("answer\n", "utf-8")

    threads: list[threading.Thread] = []

    def begin(pid: int) -> None:
        threads.append(threading.Thread(target=strike, args=(pid,)))
        threads[0].start()

    code = trial.give(lane, begin)
    threads[0].join()
    return trial.go_on(lane) if code == KILLED else code


def set_clock(trial: Trial, jump: float) -> None:
    assert trial.clock is not None
    spare = trial.top / "clock.new"
    spare.write_text(repr(jump), "ascii")
    spare.rename(trial.clock)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(moment, marks=[pytest.mark.soak] if moment.is_easy else [])
        for moment in MOMENTS
    ],
    ids=lambda moment: moment.name,
)
def test_a_jump_of_the_clock_changes_no_result(
    moment: Moment, quick_top: Path, lanes: Lanes
) -> None:
    """Both ways, in a run that goes on and in one that is killed then and resumed."""
    whole = Trial(quick_top / "whole", moment.shape)
    with lanes.one() as lane:
        reference = whole.left(play(whole, moment, 0.0, lane, dies=False))
    assert reference.code == moment.shape.exit_code, whole.said()

    def judge(lane: Lane, case: tuple[float, bool]) -> None:
        jump, dies = case
        trial = Trial(quick_top / f"{jump}-{dies}", moment.shape)
        began = time.monotonic()
        code = play(trial, moment, jump, lane, dies=dies)
        took = time.monotonic() - began
        check_same(reference, trial.left(code), set())
        assert took < 60, f"it took {took:.0f} s"
        check_times(trial)

    lanes.spread([(jump, dies) for jump in JUMPS for dies in (False, True)], judge)


def check_times(trial: Trial) -> None:
    """Nobody is told that a step took years."""
    for event in trial.events():
        if event["on"] == "step-finished":
            assert event["result"].get("duration_ms", 0) < 60_000, event


@pytest.mark.parametrize("jump", JUMPS)
def test_a_gate_is_not_decided_by_a_jump(jump: float, quick_top: Path, lanes: Lanes) -> None:
    """It may be answered for an hour, and is asked about by everybody who looks."""
    text = STAGED.workflow.replace("required: true,", "required: true, timeout: 3600,")
    trial = Trial(quick_top, Shape("gated", text, files=STAGED.files, answers=STAGED.answers))
    trial.clock = trial.top / "clock"
    trial.clock.write_text("0", "ascii")
    with lanes.one() as lane:
        assert trial.give(lane) == PARKED
        set_clock(trial, jump)
        for words in (["status", "latest"], ["approvals"], ["resume", "latest"]):
            lane.run(trial.order(*words))
            assert [gate["status"] for gate in trial.gates()] == ["pending"], words
        assert trial.go_on(lane) == 0, trial.said()
    assert [gate["status"] for gate in trial.gates()] == ["approved", "approved"]


def test_a_gate_expires_when_its_time_is_up_all_the_same(quick_top: Path, lanes: Lanes) -> None:
    """A jump back by years does not keep it open."""
    text = STAGED.workflow.replace("required: true,", "required: true, timeout: 4,")
    trial = Trial(quick_top, Shape("gated", text, files=STAGED.files, answers=STAGED.answers))
    trial.clock = trial.top / "clock"
    trial.clock.write_text("0", "ascii")
    with lanes.one() as lane:
        assert trial.give(lane) == PARKED
        set_clock(trial, -20 * YEAR_S)
        time.sleep(4.1)
        lane.run(trial.order("status", "latest"))
    assert [gate["status"] for gate in trial.gates()] == ["denied"]


@pytest.mark.soak
@pytest.mark.parametrize("shape", [LINEAR, NESTED, RETRYING, WAITING, RECIPE, CALLING, STAGED],
                         ids=lambda shape: shape.name)  # fmt: skip
def test_jumps_between_kills_and_resumes_change_no_result(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """The clock is another one for each command, and each is killed further on than the last."""
    whole = Trial(quick_top / "whole", shape)
    with lanes.one() as lane, whole.company():
        reference = whole.left(whole.go_on(lane))
    for number in range(20):
        trial = Trial(quick_top / str(number), shape)
        trial.clock = trial.top / "clock"
        with lanes.one() as lane, trial.company():
            for command in range(6):
                set_clock(trial, JUMPS[(command + number) % 2] * command)
                code = trial.give(lane, die_before=60 + 7 * number)
                if code not in (KILLED, PARKED) and not trial.is_open:
                    break
            else:
                code = trial.go_on(lane)
        check_same(reference, trial.left(code), set(), is_ordered=shape.is_ordered)
