"""What was not synced is derived again from the keeper's records, with nothing done twice.

The orchestrator is killed anywhere, alone or with everybody. Then the end of its journal is taken
away, as a power cut may do: all that it need not have synced, whether it was on the disk or not.
The keeper's journal stays, as it does on a disk: it is synced with every claim.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises.judging import check_nothing_repeated, check_same
from tests.promises.keepers import kill_keeper_and_company
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import CHAINED, DERIVED, Shape
from tests.promises.test_keeper_kills import go_on_until_over
from tests.promises.test_kill_sweep import Spot, Sweep, begin, choose, run_killed, seed_of
from tests.promises.trials import KILLED, Trial

# Of these a success need not be synced.
PLAIN = {"Flag", "Takes", "Tee", "Moves", "Lines", "Each/Quick", "Each/Gone", "Each/Back", "Last"}
PLAIN |= {"One", "Two", "Three", "Four", "Five", "Loop/Quick", "Loop/Says", "Loop/Reads", "Guarded"}
MANY = 60


def can_be_derived(line: bytes) -> bool:
    event = json.loads(line)["event"]
    if event["on"] == "step-started":
        return True
    is_success = event["on"] == "step-finished" and event["result"]["status"] == "completed"
    return is_success and event["node"] in PLAIN


def lose_the_end(root: Path) -> int:
    """Take away what can be derived, and the state that has it; how many results those were."""
    events = root / "events.jsonl"
    whole = events.read_bytes()
    lines = whole[: whole.rfind(b"\n") + 1].splitlines(keepends=True)
    kept = list(lines)
    while kept and can_be_derived(kept[-1]):
        del kept[-1]
    events.write_bytes(b"".join(kept))
    (root / "state.json").unlink()
    return sum(b'"on":"step-finished"' in line for line in lines[len(kept) :])


def nobody_else(trial: Trial) -> None:
    """The keeper lives on."""


@pytest.mark.parametrize("number", [9, pytest.param(MANY, marks=pytest.mark.soak)])
@pytest.mark.parametrize("strike", [nobody_else, kill_keeper_and_company])
@pytest.mark.parametrize("shape", [DERIVED, CHAINED], ids=lambda shape: shape.name)
def test_what_was_lost_is_derived_again(
    shape: Shape, strike: Callable[[Trial], None], number: int, quick_top: Path, lanes: Lanes
) -> None:
    chance = random.Random(seed_of(f"derived, {shape.name}, {strike.__name__}"))
    sweep = begin(shape, quick_top, lanes)
    spots = choose(sweep, number, chance)

    def judge(lane: Lane, spot: Spot) -> int | str:
        try:
            return judge_loss(sweep, lane, spot, strike)
        except AssertionError as error:
            return f"killed at {spot}: {error}"

    judged = lanes.spread(spots, judge)
    faults = [fault for fault in judged if isinstance(fault, str)]
    assert not faults, f"{len(faults)} of {len(spots)}:\n" + "\n".join(faults)[:3000]
    lost = sum(one for one in judged if isinstance(one, int))
    print(f"{lost} results were lost and derived")
    # Of few spots it is chance how many matter.
    assert number < MANY or lost >= MANY // 2, "else nothing was tested"


def judge_loss(sweep: Sweep, lane: Lane, spot: Spot, strike: Callable[[Trial], None]) -> int:
    trial = sweep.trial()
    code = run_killed(lane, trial, spot.point)
    if code != KILLED or not trial.roots() or not trial.events():
        return 0
    strike(trial)
    lost = lose_the_end(trial.root)
    code = go_on_until_over(trial, lane)
    if trial.lost():
        assert strike is not nobody_else, "lost, though the keeper lived"
        check_nothing_repeated(trial)
    else:
        check_same(sweep.reference, trial.left(code), set())
    trial.remove()
    return lost
