"""Killed with SIGKILL anywhere, a staged, parallel or nested recipe goes on as if nothing was."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tests.promises.lanes import Lane, Lanes
from tests.recipes.money_shapes import RESTARTS, SILENT
from tests.recipes.sweeping import SHAPES, Kill, Left, Shape, Trial

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("noon")]

_ALL = (*SHAPES, RESTARTS, SILENT)
# The command had ended before the change of that number came: an earlier one is tried.
_MOST_MISSES = 4


def seed_of(name: str) -> int:
    """Chosen anew each time, and printed; set ORCHESTRATE_KILL_SEED to see the same kills again."""
    seed = int(os.environ.get("ORCHESTRATE_KILL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"{name}: ORCHESTRATE_KILL_SEED={seed}")
    return seed


def spread(shape: Shape, number: int, chance: random.Random) -> list[Kill]:
    """So many kills, evenly over all changes of all commands, from a random start."""
    total = sum(shape.changes)
    shift = chance.random()
    kills = []
    for place in range(number):
        spot = int((place + shift) * total / number)
        command = 0
        while spot >= shape.changes[command]:
            spot -= shape.changes[command]
            command += 1
        kills.append(Kill(command, spot + 1))
    return kills


def sweep(shape: Shape, top: Path, lanes: Lanes, cases: list[list[Kill]]) -> int:
    """Judge all cases beside an undisturbed run, and tell all faults; how many kills there were."""
    with lanes.one() as lane:
        reference = Trial(top / "undisturbed", shape).play(lane, [])
    bill = reference.bill
    assert (bill["calls"], bill["open"]) == (bill["turns"], 0), "not every call is on the bill"
    assert bill["spent_usd"] == pytest.approx(bill["cost_usd"])

    def judge(lane: Lane, case: tuple[int, list[Kill]]) -> int | str:
        number, kills = case
        for again in range(_MOST_MISSES):
            trial = Trial(top / f"{number}-{again}", shape)
            try:
                check_same(trial.play(lane, kills), reference)
            except AssertionError as error:
                return f"killed at {kills}: {error}"
            shutil.rmtree(trial.shop.top, ignore_errors=True)
            if trial.kills:
                return trial.kills
            kills = [Kill(kill.command, kill.change * 2 // 3 + 1) for kill in kills]
        return 0

    judged = lanes.spread(list(enumerate(cases)), judge)
    faults = [fault for fault in judged if isinstance(fault, str)]
    shown = "\n".join(fault[:1500] for fault in faults[:5])
    assert not faults, f"{shape.name}: {len(faults)} of {len(cases)} cases:\n{shown}"
    return sum(kills for kills in judged if isinstance(kills, int))


def check_same(left: Left, reference: Left) -> None:
    """The same prompts, each asked once, and the same results."""
    assert left.prompts == reference.prompts
    assert left.context == reference.context
    assert left.skipped == reference.skipped
    assert left.approvals == reference.approvals
    assert left.bill == reference.bill


@pytest.mark.parametrize("shape", _ALL, ids=lambda shape: shape.name)
def test_a_killed_recipe_is_resumed_as_if_nothing_had_happened(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    """Finished items are not run again, running ones are adopted, and nobody asks twice.

    `make soak` kills each of them at 150 spots, and its resumes.
    """
    chance = random.Random(seed_of(shape.name))
    cases = [[kill] for kill in spread(shape, 4, chance)]
    kills = sweep(shape, quick_top, lanes, cases)
    print(f"{shape.name}: {kills} kills")
    assert kills >= len(cases)


@pytest.mark.soak
@pytest.mark.parametrize("shape", _ALL, ids=lambda shape: shape.name)
def test_a_recipe_that_is_killed_again_and_again(
    shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    chance = random.Random(seed_of(shape.name))
    cases = [
        [kill, *(Kill(kill.command + more, chance.randrange(1, 150)) for more in (1, 2, 3))]
        for kill in spread(shape, 150, chance)
    ]
    kills = sweep(shape, quick_top, lanes, cases)
    print(f"{shape.name}: {kills} kills")
    assert kills >= 300
