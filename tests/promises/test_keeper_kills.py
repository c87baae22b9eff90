"""The keeper can die too, alone or with everybody: what it ran is then lost, dead, renumbered."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.promises.commands import await_lines
from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.keepers import (
    await_keeper,
    keeper_of,
    kill_its_company,
    kill_keeper,
    kill_keeper_and_company,
)
from tests.promises.killing import Point, can_trace, kill_at, points_in, tracing
from tests.promises.lanes import Before, Lane, Lanes, strike_in_thread
from tests.promises.processes import kill
from tests.promises.shapes import STEADY, Shape
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Left, Trial

KILLED = -9


@dataclass(frozen=True)
class Blow:
    """What is killed beside the orchestrator, and whether that is."""

    name: str
    strike: Callable[[Trial], None]
    takes_orchestrator: bool


BLOWS = (
    Blow("keeper", kill_keeper, takes_orchestrator=False),
    Blow("guardian and wardens", kill_its_company, takes_orchestrator=False),
    Blow("orchestrator and keeper", kill_keeper, takes_orchestrator=True),
    Blow("everything", kill_keeper_and_company, takes_orchestrator=True),
)


# On a busy machine a blow may come when the program that it was meant for has ended: the programs
# take longer then.
SLOWER = (1, 8, 60)


def slower(times: int) -> Shape:
    """The shape whose programs take so many times as long."""
    longer = re.sub(r"(?<=sleep )[\d.]+", lambda m: f"{float(m[0]) * times:g}", STEADY.workflow)
    return replace(STEADY, workflow=longer)


def undisturbed(top: Path, lane: Lane, shape: Shape = STEADY) -> Left:
    trial = Trial(top / "undisturbed", shape)
    code = trial.go_on(lane)
    assert code == 0, trial.said()
    return trial.left(code)


def strike_after(trial: Trial, blow: Blow, lines: int, delay_s: float) -> Before:
    """Something to do to a process that stands still: it is struck a while after a ledger line."""

    def strike(pid: int) -> None:
        await_lines(trial, lines)
        time.sleep(delay_s)
        if blow.takes_orchestrator:
            kill(pid)
        blow.strike(trial)

    return strike_in_thread(strike)


def go_on_until_over(trial: Trial, lane: Lane) -> int:
    for _ in range(4):
        code = trial.go_on(lane)
        if trial.status() not in ("running", "paused", "none"):
            return code
    raise AssertionError(f"it does not end: {trial.said()}")


def judge(trial: Trial, reference: Left, code: int, lane: Lane) -> None:
    """Only lost attempts may have been repeated, each under a new number, one after the other."""
    recorded = check_moment(trial)
    if code == KILLED or trial.status() in ("running", "paused", "none"):
        code = go_on_until_over(trial, lane)
    check_nothing_lost(recorded, trial)
    check_same(reference, trial.left(code), trial.lost())
    assert "Traceback" not in trial.said()


@pytest.mark.parametrize(
    "every", [4, pytest.param(2, marks=pytest.mark.soak)], ids=["some", "each"]
)
@pytest.mark.parametrize("blow", BLOWS, ids=lambda blow: blow.name)
def test_whoever_dies_only_lost_attempts_are_repeated(
    blow: Blow, every: int, quick_top: Path, lanes: Lanes
) -> None:
    must_lose = blow.strike is not kill_its_company
    for times in SLOWER:
        if strike_some(quick_top / str(times), lanes, blow, slower(times), every) or not must_lose:
            return
    pytest.fail("no attempt was lost, so nothing was tested")


def strike_some(top: Path, lanes: Lanes, blow: Blow, shape: Shape, every: int) -> bool:
    """Strike runs after starts of programs, which are every second line; was any attempt lost?"""
    chance = random.Random(seed_of(blow.name))
    number = itertools.count(1)
    with lanes.one() as lane:
        reference = undisturbed(top, lane, shape)

    def strike(lane: Lane, lines: int) -> str:
        trial = Trial(top / str(next(number)), shape)
        delay_s = chance.uniform(0.0, 0.02)
        try:
            code = lane.run(trial.start_order(), strike_after(trial, blow, lines, delay_s))
            judge(trial, reference, code, lane)
        except AssertionError as error:
            where = f"struck {delay_s:.3f} s after line {lines}"
            return f"{where}: {error}\n{trial.said()[-600:]}"
        lost = len(trial.lost())
        trial.remove()
        return "lost" if lost else ""

    told = lanes.spread(
        list(range(chance.randrange(1, every, 2), len(reference.ledger), every)), strike
    )
    faults = [fault for fault in told if fault not in ("", "lost")]
    assert not faults, f"{len(faults)} of {len(told)}: " + "\n".join(faults[:3])
    return "lost" in told


@pytest.mark.skipif(not can_trace(), reason="needs strace; the blows above need nothing")
@pytest.mark.parametrize(
    "number", [8, pytest.param(300, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_the_keeper_is_killed_at_its_system_calls(
    number: int, quick_top: Path, lanes: Lanes
) -> None:
    chance = random.Random(seed_of("keeper's calls"))
    with lanes.one() as lane:
        reference = undisturbed(quick_top, lane)
        log = quick_top / "calls"
        trial = Trial(quick_top / "traced", STEADY)
        run_with_traced_keeper(trial, lane, ["-o", str(log)])
    points = points_in(log)
    assert len(points) > 50

    def judge_point(lane: Lane, case: tuple[int, Point]) -> str:
        place, point = case
        trial = Trial(quick_top / f"k{place}", STEADY)
        try:
            code = run_with_traced_keeper(trial, lane, kill_at(point))
            judge(trial, reference, code, lane)
        except AssertionError as error:
            return f"keeper killed at {point}: {error}\n{trial.said()[-600:]}"
        trial.remove()
        return ""

    chosen = [points[chance.randrange(len(points))] for _ in range(number)]
    faults = [fault for fault in lanes.spread(list(enumerate(chosen)), judge_point) if fault]
    assert not faults, f"{len(faults)} of {number}: " + "\n".join(faults[:3])


def run_with_traced_keeper(trial: Trial, lane: Lane, options: list[str]) -> int:
    """The orchestrator runs free; its keeper is traced from its first program on."""
    traced: list[int] = []
    hold = trial.top / "hold"
    hold.write_text("0")
    with tracing(options) as attach:

        def watch() -> None:
            try:
                traced.append(await_keeper(trial))
                attach(traced[0])
            finally:
                hold.unlink()

        watcher = threading.Thread(target=watch)
        code = lane.run(trial.start_order(), lambda _: watcher.start())
        watcher.join()
        # A keeper lingers, and its tracer with it.
        if keeper_of(trial) == traced[0]:
            kill(traced[0])
    return code
