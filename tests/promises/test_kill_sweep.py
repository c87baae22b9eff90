"""Killed with SIGKILL at any of its system calls, a run is resumed as if nothing had happened."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.promises.judging import check_moment, check_nothing_lost, check_same, leftovers
from tests.promises.killing import Point, can_trace, kill_at, points_in, tracing
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import ALL, QUICK, Shape
from tests.promises.trials import Left, Trial

KILLED = -9
# Calls after which somebody else can see a difference.
TELLING = (
    "write", "fdatasync", "fsync", "rename", "renameat", "unlink", "linkat", "ftruncate", "sendto",
    "recvfrom", "mkdir", "mkdirat", "flock", "connect", "wait4",
)  # fmt: skip
# More changes than any run has: they are only counted.
COUNT = 1_000_000


@dataclass
class Sweep:
    """One shape's undisturbed run, and where it can be killed."""

    shape: Shape
    top: Path
    lanes: Lanes
    reference: Left
    points: list[Point]
    changes: int
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def trial(self) -> Trial:
        return Trial(self.top / f"{self.shape.name}-{next(self.numbers)}", self.shape)


def seed_of(name: str) -> int:
    """Chosen anew each time, and printed; set ORCHESTRATE_KILL_SEED to see the same kills again."""
    seed = int(os.environ.get("ORCHESTRATE_KILL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"{name}: ORCHESTRATE_KILL_SEED={seed}")
    return seed


def begin(shape: Shape, top: Path, lanes: Lanes) -> Sweep:
    """Run it undisturbed, to see what it leaves, its system calls, and its changes of files."""
    log = top / f"{shape.name}.calls"
    found = []
    with lanes.one() as lane:
        for is_traced in (True, False):
            trial = Trial(top / f"{shape.name}-undisturbed-{is_traced}", shape)
            with trial.company():
                if is_traced and can_trace():
                    with tracing(["-o", str(log)]) as attach:
                        code = trial.go_on(lane, attach)
                else:
                    code = lane.run(trial.start_order(die_before=COUNT))
            assert code == shape.exit_code, trial.said()
            found.append(trial.left(code))
            trial.remove()
        changes = lane.changes
    check_same(found[0], found[1], set())
    return Sweep(shape, top, lanes, found[0], points_in(log) if can_trace() else [], changes)


def choose(sweep: Sweep, number: int, chance: random.Random) -> list[Point]:
    """Evenly over the run: all system calls, those with consequences, and the hook's changes.

    The hook sees what other threads do, too.
    """
    telling = [point for point in sweep.points if point[0] in TELLING]
    share = number // 3 if telling else 0
    chosen = [("change", spot) for spot in _spread(sweep.changes, number - 2 * share, chance)]
    for points in (sweep.points, telling):
        chosen += [points[spot - 1] for spot in _spread(len(points), share, chance)]
    return chosen


def _spread(length: int, number: int, chance: random.Random) -> list[int]:
    """So many numbers from 1 to `length`, at equal distances from a random start."""
    shift = chance.random()
    return [1 + int((place + shift) * length / number) for place in range(number)]


def choose_chain(sweep: Sweep, chance: random.Random) -> list[Point]:
    """Four points that follow one another: each resume is killed in what the kill before left over.

    A point of the whole run would mostly lie behind the end of a resume, which has less to do.
    """
    telling = [point for point in sweep.points if point[0] in TELLING]
    changes: list[Point] = [("change", number) for number in range(1, sweep.changes + 1)]
    stops = sorted(chance.random() for _ in range(4))
    gaps = [after - before for before, after in zip([0.0, *stops], stops, strict=False)]
    chain = []
    for gap in gaps:
        points = chance.choice([sweep.points or changes, telling or changes, changes])
        chain.append(points[int(gap * len(points))])
    return chain


def run_killed(lane: Lane, trial: Trial, point: Point) -> int:
    if point[0] == "change":
        return lane.run(trial.start_order(die_before=point[1]))
    with tracing(kill_at(point)) as attach:
        return trial.go_on(lane, attach)


def kill_and_resume(sweep: Sweep, lane: Lane, points: list[Point]) -> int:
    """Kill the run at the first point, its resume at the second, and so on; then let it end.

    How many kills there were: a call whose number depends on the time may not come.
    """
    trial = sweep.trial()
    kills = 0
    recorded: list[dict[str, Any]] = []
    with trial.company():
        for point in points:
            code = run_killed(lane, trial, point)
            recorded = check_moment(trial)
            if code != KILLED:
                break
            kills += 1
        else:
            code = trial.go_on(lane)
        if trial.status() == "none":
            assert not trial.lines(), "a program ran in a run that was never recorded"
            code = trial.go_on(lane)
    check_nothing_lost(recorded, trial)
    assert not trial.lost(), "lost, though the keeper lived"
    check_same(sweep.reference, trial.left(code), set())
    assert not leftovers(trial.root)
    trial.remove()
    return kills


def sweep_over(sweep: Sweep, cases: list[list[Point]]) -> int:
    """Judge all cases and tell all faults; how many kills there were."""

    def judge(lane: Lane, points: list[Point]) -> int | str:
        try:
            return kill_and_resume(sweep, lane, points)
        except AssertionError as error:
            return f"killed at {points}: {error}"

    judged = sweep.lanes.spread(cases, judge)
    faults = [fault for fault in judged if isinstance(fault, str)]
    shown = "\n".join(fault[:1500] for fault in faults[:5])
    assert not faults, f"{sweep.shape.name}: {len(faults)} of {len(cases)} cases:\n{shown}"
    return sum(kills for kills in judged if isinstance(kills, int))


@pytest.mark.parametrize("shape", QUICK, ids=lambda shape: shape.name)
def test_a_killed_run_is_resumed_as_if_nothing_had_happened(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    kills = sweep_over(sweep, [[point] for point in choose(sweep, 60, chance)])
    print(f"{shape.name}: {kills} kills at {len(sweep.points)} system calls")
    assert kills >= 50


@pytest.mark.parametrize("shape", QUICK, ids=lambda shape: shape.name)
def test_a_resume_is_killed_three_times_over(shape: Shape, quick_top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    kills = sweep_over(sweep, [choose_chain(sweep, chance) for _ in range(4)])
    print(f"{shape.name}: {kills} kills in 4 chains")
    assert kills >= 8


@pytest.mark.soak
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_killed_at_each_of_its_system_calls(shape: Shape, quick_top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    changes: list[Point] = [("change", number) for number in range(1, sweep.changes + 1)]
    kills = sweep_over(sweep, [[point] for point in (*sweep.points, *changes)])
    deep = [choose_chain(sweep, chance) for _ in range(25)]
    kills += sweep_over(sweep, deep)
    print(f"{shape.name}: {kills} kills")
    assert kills >= 300
