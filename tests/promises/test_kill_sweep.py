"""Killed with SIGKILL at any of its system calls, a run is resumed as if nothing had happened."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.promises.agent_shapes import BUILT_ALL, OF_AGENTS
from tests.promises.judging import check_moment, check_nothing_lost, check_same, leftovers
from tests.promises.killing import Point, can_trace, kill_at, points_in, tracing
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import ALL, QUICK, Shape
from tests.promises.trials import KILLED, Left, Trial

# Calls after which somebody else can see a difference.
TELLING = (
    "write", "fdatasync", "fsync", "rename", "renameat", "unlink", "linkat", "ftruncate", "sendto",
    "recvfrom", "mkdir", "mkdirat", "flock", "connect", "wait4",
)  # fmt: skip
# More changes than any run has: they are only counted.
COUNT = 1_000_000
# A call whose number depends on the time may not come: an earlier one of its name is tried.
MOST_MISSES = 6


@dataclass(frozen=True)
class Spot:
    """Where a kill comes: in which command of the run, counted from 0, and in front of what."""

    command: int
    point: Point

    @property
    def earlier(self) -> Spot:
        name, number = self.point
        return Spot(self.command, (name, number * 2 // 3 or 1))


@dataclass
class Sweep:
    """One shape's undisturbed run, and where it can be killed."""

    shape: Shape
    top: Path
    lanes: Lanes
    reference: Left
    calls: list[Spot]
    changes: list[Spot]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    @property
    def telling(self) -> list[Spot]:
        return [spot for spot in self.calls if spot.point[0] in TELLING]

    def trial(self) -> Trial:
        return Trial(self.top / f"{self.shape.name}-{next(self.numbers)}", self.shape)


def seed_of(name: str) -> int:
    """Chosen anew each time, and printed; set ORCHESTRATE_KILL_SEED to see the same kills again."""
    seed = int(os.environ.get("ORCHESTRATE_KILL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"{name}: ORCHESTRATE_KILL_SEED={seed}")
    return seed


def begin(shape: Shape, top: Path, lanes: Lanes, *, traces: bool = True) -> Sweep:
    """Run it undisturbed, to see what it leaves, its system calls, and its changes of files.

    Without traces it has no system calls, only changes; that is several times as quick.
    """
    found = []
    calls: list[Spot] = []
    changes: list[Spot] = []
    with lanes.one() as lane:
        for is_traced in (True, False) if traces else (False,):
            trial = Trial(top / f"{shape.name}-undisturbed-{is_traced}", shape)
            with trial.company():
                code, command = 0, 0
                while command == 0 or trial.is_open:
                    if is_traced and can_trace():
                        log = top / f"{shape.name}.{command}.calls"
                        with tracing(["-o", str(log)]) as attach:
                            code = trial.give(lane, attach)
                        calls += [Spot(command, point) for point in points_in(log)]
                    else:
                        code = trial.give(lane, die_before=COUNT)
                        made = range(1, lane.changes + 1)
                        changes += [Spot(command, ("change", number)) for number in made]
                    command += 1
            assert code == shape.exit_code, trial.said()
            found.append(trial.left(code))
            trial.remove()
    check_same(found[0], found[-1], set(), is_ordered=shape.is_ordered)
    return Sweep(shape, top, lanes, found[0], calls, changes)


def choose(sweep: Sweep, number: int, chance: random.Random) -> list[Spot]:
    """Evenly over the run: all system calls, those with consequences, and the hook's changes.

    The hook sees what other threads do, too.
    """
    share = number // 3 if sweep.calls else 0
    chosen = _spread(sweep.changes, number - 2 * share, chance)
    for spots in (sweep.calls, sweep.telling):
        chosen += _spread(spots, share, chance)
    return chosen


def _spread(spots: list[Spot], number: int, chance: random.Random) -> list[Spot]:
    """So many of the spots, at equal distances from a random start."""
    shift = chance.random()
    return [spots[int((place + shift) * len(spots) / number)] for place in range(number)]


def choose_chain(sweep: Sweep, chance: random.Random) -> list[Spot]:
    """Four spots that follow one another: each resume is killed in what the kill before left over.

    A spot of the whole run would mostly lie behind the end of a resume, which has less to do.
    """
    stops = sorted(chance.random() for _ in range(4))
    gaps = [after - before for before, after in zip([0.0, *stops], stops, strict=False)]
    chain = []
    for gap in gaps:
        spots = chance.choice([sweep.calls or sweep.changes, sweep.telling or sweep.changes,
                               sweep.changes])  # fmt: skip
        chain.append(spots[int(gap * len(spots))])
    return chain


def run_killed(lane: Lane, trial: Trial, point: Point) -> int:
    if point[0] == "change":
        return trial.give(lane, die_before=point[1])
    with tracing(kill_at(point)) as attach:
        return trial.give(lane, attach)


def kill_and_resume(sweep: Sweep, lane: Lane, spots: list[Spot]) -> int:
    """Kill the run at the first spot, its resume at the second, and so on; then let it end.

    How many kills there were: a call whose number depends on the time may not come.
    """
    trial = sweep.trial()
    kills = code = 0
    recorded: list[dict[str, Any]] = []
    with trial.company():
        for _ in range(spots[0].command):
            trial.give(lane)
        for spot in spots:
            code = run_killed(lane, trial, spot.point)
            recorded = check_moment(trial)
            if code != KILLED:
                break
            kills += 1
        if code == KILLED or trial.is_open:
            code = trial.go_on(lane)
        if trial.status() == "none":
            assert not trial.lines(), "a program ran in a run that was never recorded"
            code = trial.go_on(lane)
    check_nothing_lost(recorded, trial)
    assert not trial.lost(), "lost, though the keeper lived"
    check_same(sweep.reference, trial.left(code), set(), is_ordered=sweep.shape.is_ordered)
    assert not leftovers(trial.root)
    trial.remove()
    return kills


def sweep_over(sweep: Sweep, cases: list[list[Spot]]) -> int:
    """Judge all cases and tell all faults; how many kills there were.

    Every case has a kill, and a chain has a second one at least.
    """

    def judge(lane: Lane, spots: list[Spot]) -> int | str:
        for _ in range(MOST_MISSES):
            try:
                kills = kill_and_resume(sweep, lane, spots)
            except AssertionError as error:
                return f"killed at {spots}: {error}"
            if kills >= min(len(spots), 2):
                return kills
            spots = [spot.earlier for spot in spots]
        return f"not killed at {spots}"

    judged = sweep.lanes.spread(cases, judge)
    faults = [fault for fault in judged if isinstance(fault, str)]
    shown = "\n".join(fault[:1500] for fault in faults[:5])
    assert not faults, f"{sweep.shape.name}: {len(faults)} of {len(cases)} cases:\n{shown}"
    return sum(kills for kills in judged if isinstance(kills, int))


@pytest.mark.parametrize("shape", QUICK, ids=lambda shape: shape.name)
def test_a_killed_run_is_resumed_as_if_nothing_had_happened(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """At one spot, or its resumes, too, up to three times; `make soak` takes every spot."""
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    cases = [[spot] for spot in choose(sweep, 3, chance)] + [choose_chain(sweep, chance)]
    kills = sweep_over(sweep, cases)
    print(f"{shape.name}: {kills} kills at {len(sweep.calls)} system calls, one in a chain")
    assert kills >= 5


@pytest.mark.parametrize("shape", OF_AGENTS, ids=lambda shape: shape.name)
def test_a_killed_recipe_or_machine_is_resumed_as_if_nothing_had_happened(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """In front of changes of files; `make soak` has system calls, and chains."""
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes, traces=False)
    kills = sweep_over(sweep, [[spot] for spot in choose(sweep, 2, chance)])
    print(f"{shape.name}: {kills} kills in front of {len(sweep.changes)} changes")
    assert kills == 2


@pytest.mark.soak
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_killed_at_each_of_its_system_calls(shape: Shape, quick_top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    kills = sweep_over(sweep, [[spot] for spot in (*sweep.calls, *sweep.changes)])
    deep = [choose_chain(sweep, chance) for _ in range(25)]
    kills += sweep_over(sweep, deep)
    print(f"{shape.name}: {kills} kills")
    assert kills >= 300


@pytest.mark.soak
@pytest.mark.parametrize("shape", OF_AGENTS, ids=lambda shape: shape.name)
def test_a_recipe_or_machine_is_killed_at_hundreds_of_spots(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """Each command of a gated run is killed, `approve` too; chains kill the resumes as well."""
    chance = random.Random(seed_of(shape.name))
    sweep = begin(shape, quick_top, lanes)
    kills = sweep_over(sweep, [[spot] for spot in choose(sweep, 240, chance)])
    assert kills == 240
    kills += sweep_over(sweep, [choose_chain(sweep, chance) for _ in range(15)])
    print(f"{shape.name}: {kills} kills")


@pytest.mark.soak
@pytest.mark.parametrize("shape", BUILT_ALL, ids=lambda shape: shape.name)
def test_checks_and_gates_are_killed_in_front_of_every_change(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """Every event is a change of a file; so is the decision that is made at the gate."""
    sweep = begin(shape, quick_top, lanes)
    kills = sweep_over(sweep, [[spot] for spot in sweep.changes])
    print(f"{shape.name}: {kills} kills")
    assert kills == len(sweep.changes) > 200
