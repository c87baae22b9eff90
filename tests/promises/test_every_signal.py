"""Every signal that can be caught, at every phase of a run: it stays resumable and comes out right.

What a signal does differs: three pause the run, some are ignored, some stop the process until it is
continued, and all others end it on the spot. `test_signals` says what the three do in detail.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises.agent_shapes import STAGED
from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.lanes import Lane, Lanes
from tests.promises.processes import kill, wait_until
from tests.promises.shapes import Shape, act
from tests.promises.test_keeper_kills import go_on_until_over
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import KILLED, PARKED, Left, Trial, attempt_of

CATCHABLE = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}, key=int)
STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
ALL_SIGNALS = (*CATCHABLE, signal.SIGSTOP)
PAUSING: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

PHASED = Shape(
    "phased",
    f"""
    version: "1.1"
    name: phased
    steps:
      - name: Long
        command: {act("Long", "-", "sleep 0.3")}
      - name: Flaky
        command: {act("Flaky", "-", "count tries; enough tries 1")}
        retries: {{max: 2, delay_ms: 300}}
      - name: Await
        wait_for: {{glob: "replies/*.txt", timeout_sec: 120, poll_ms: 20}}
      - name: Loop
        for_each:
          items: [a, b, c, d]
          steps:
            - name: Short
              command: {act("Short", "${item}")}
      - name: Last
        command: {act("Last")}
    """,
    files={"replies/.keep": ""},
    replies={"Flaky": "replies/answer.txt"},
)


@dataclass(frozen=True)
class Phase:
    """When to send: once this is so, and a little later; in the first command or in its resume."""

    name: str
    is_here: Callable[[Trial], object]
    later_s: float = 0.02
    in_resume: bool = False


def is_done(step: str, kind: str = "start") -> Callable[[Trial], bool]:
    return lambda trial: any((line.kind, line.step) == (kind, step) for line in trial.lines())


def has(on: str, node: str) -> Callable[[Trial], bool]:
    return lambda trial: any(
        event["on"] == on and event.get("node") == node for event in trial.events()
    )


def at_once(_: Trial) -> bool:
    return True


PHASES = (
    Phase("start", at_once, later_s=0.06),
    Phase("a running step", is_done("Long")),
    Phase("a retry's rest", has("attempt-ended", "Flaky"), later_s=0.1),
    Phase("a wait", has("step-started", "Await")),
    Phase("between steps", is_done("Short"), later_s=0.05),
    Phase("finishing", is_done("Last", "end")),
    Phase("a resume", at_once, later_s=0.1, in_resume=True),
)


def undisturbed(top: Path, shape: Shape, lane: Lane) -> Left:
    trial = Trial(top / "whole", shape)
    with trial.company():
        code = trial.go_on(lane)
    assert code == 0, trial.said()
    return trial.left(code)


def sending(
    trial: Trial, number: int, is_here: Callable[[Trial], object], later_s: float
) -> tuple[Callable[[int], None], list[threading.Thread]]:
    """Something to do to a process that starts, and the thread that does it."""
    threads: list[threading.Thread] = []

    def send(pid: int) -> None:
        wait_until(lambda: is_here(trial), "the phase never came")
        time.sleep(later_s)
        kill(pid, number)
        if number in STOPPING:
            time.sleep(0.15)
            kill(pid, signal.SIGCONT)

    def begin(pid: int) -> None:
        threads.append(threading.Thread(target=send, args=(pid,)))
        threads[0].start()

    return begin, threads


def judge(trial: Trial, phase: Phase, number: int, reference: Left, lane: Lane) -> int:
    """How the command ended that got the signal; the run is right in the end."""
    later_s = random.SystemRandom().uniform(0.0, phase.later_s)
    if phase.in_resume:
        # Nobody replies to it yet: it cannot end before it is killed.
        begin, threads = sending(trial, signal.SIGKILL, is_done("Long"), 0.0)
        assert lane.run(trial.start_order(), begin) == KILLED
        threads[0].join()
    with trial.company():
        begin, threads = sending(trial, number, phase.is_here, later_s)
        code = ended = lane.run(trial.start_order(), begin)
        threads[0].join()
        recorded = check_moment(trial)
        if code != 0:
            # Also one that has ended, but not the command: the resume then says so.
            code = go_on_until_over(trial, lane)
    check_nothing_lost(recorded, trial)
    assert "Traceback" not in trial.said(), trial.said()
    assert not trial.lost(), "lost, though the keeper lived"
    check_same(reference, trial.left(code), stopped_in(trial))
    return ended


def stopped_in(trial: Trial) -> set[str]:
    """Attempts that were ended because the run was to pause; they are begun again."""
    return {
        attempt_of(event)
        for event in trial.events()
        if event["on"] == "attempt-ended" and event["why"] == "stopped"
    }


def check_all(cases: list[tuple[Phase, int]], top: Path, lanes: Lanes) -> None:
    with lanes.one() as lane:
        reference = undisturbed(top, PHASED, lane)

    def one(lane: Lane, case: tuple[Phase, int]) -> str:
        phase, number = case
        trial = Trial(top / f"{phase.name}-{number}", PHASED)
        try:
            code = judge(trial, phase, number, reference, lane)
            assert code in (0, -number, PAUSING.get(number)), f"exit code {code}"
        except AssertionError as error:
            return f"signal {number} in {phase.name}: {error}\n{trial.said()[-500:]}"
        trial.remove()
        return ""

    faults = [fault for fault in lanes.spread(cases, one) if fault]
    assert not faults, f"{len(faults)} of {len(cases)}:\n" + "\n".join(faults[:4])[:6000]
    print(f"{len(cases)} signals sent")


def test_some_signals_at_every_phase(quick_top: Path, lanes: Lanes) -> None:
    """Another choice each time: for each phase one of all, for some one that pauses or stops."""
    chance = random.Random(seed_of("signals"))
    cases = [(phase, int(chance.choice(CATCHABLE))) for phase in PHASES]
    cases += [(phase, int(chance.choice(list(PAUSING)))) for phase in (PHASES[0], PHASES[6])]
    cases += [(phase, int(chance.choice(STOPPING))) for phase in PHASES[1:4:2]]
    check_all(cases, quick_top, lanes)


@pytest.mark.soak
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_every_signal(phase: Phase, quick_top: Path, lanes: Lanes) -> None:
    check_all([(phase, int(number)) for number in ALL_SIGNALS], quick_top, lanes)


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT, signal.SIGUSR1, signal.SIGSTOP),
        pytest.param(ALL_SIGNALS, marks=pytest.mark.soak),
    ],
    ids=["some", "all"],
)
def test_a_signal_while_a_gate_is_decided(
    numbers: tuple[int, ...], quick_top: Path, lanes: Lanes
) -> None:
    """`approve` is given until it is heard; the decision counts once."""
    with lanes.one() as lane:
        reference = undisturbed(quick_top, STAGED, lane)

    def one(lane: Lane, number: int) -> None:
        trial = Trial(quick_top / str(int(number)), STAGED)
        assert trial.give(lane) == PARKED
        begin, threads = sending(trial, number, at_once, random.SystemRandom().uniform(0, 0.08))
        words = ("approve", trial.root.name, "--message", "message 0")
        code = lane.run(trial.order(*words), begin)
        threads[0].join()
        assert code in (0, -number, PAUSING.get(number)), f"exit code {code}"
        check_moment(trial)
        if [gate["status"] for gate in trial.gates()] == ["pending"]:
            # It may be on record already, and then it says so.
            assert lane.run(trial.order(*words)) in (0, 2), trial.said()
        code = lane.run(trial.order("resume", "latest"))
        assert code == PARKED, trial.said()
        assert lane.run(trial.order(*words[:3], "message 1")) == 0
        code = lane.run(trial.order("resume", "latest"))
        check_same(reference, trial.left(code), set())

    lanes.spread(list(numbers), one)
