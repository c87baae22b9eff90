"""Two runs share two slots and a usage limit; one of them is killed anywhere, and resumed."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.promises.lanes import Lane, Lanes, Order
from tests.recipes.fakes import Workshop, rule
from tests.recipes.sweeping import KILLED
from tests.recipes.test_kill_sweep import seed_of
from tests.recipes.test_slots import ITEMS, limit, most_at_once, tickets

pytestmark = pytest.mark.faults

# About how many changes of files the run that is killed makes.
_CHANGES = 200
_EXPECTED = sorted([f"{name}{number}" for name in "ab" for number in range(1, 5)] + ["a3"])


def judge(lane: Lane, case: tuple[Path, int]) -> str:
    """What was wrong when a run was killed in front of one of its changes; '' if nothing was."""
    top, change = case
    top.mkdir()
    shop = Workshop(top)
    limit(shop, "claude-code: 2, total: 4")
    limited = {"fail": "rate-limit", "resets_in": 2}
    shop.answers(rule("STEP:a3", limited, {"delay": 0.1}), rule("STEP", {"delay": 0.1}))
    for name in "ab":
        shop.write(f"{name}.yaml", ITEMS.replace("NAME", name))
    env = {**os.environ, **shop.surroundings}

    def give(die_before: int, *words: str) -> int:
        files = (shop.folder, top / "stdout", top / "stderr")
        return lane.run(Order(words, *files, env, die_before))

    with shop.started("run", "b.yaml", "--allow-concurrent") as other:
        code = give(change, "run", "a.yaml", "--allow-concurrent")
        while code == KILLED:
            own = [path.name for path in shop.runs_folder.iterdir() if _is_of(path, "a.yaml")]
            again = ("resume", own[0]) if own else ("run", "a.yaml")
            code = give(0, *again, "--allow-concurrent")
        codes = (code, other.wait(120))
    facts = codes, most_at_once(shop.calls()) <= 2, sorted(shop.asked()), tickets(shop)
    if facts == ((0, 0), True, _EXPECTED, []):
        return ""
    return f"killed before change {change}: {facts}\n{(top / 'stderr').read_text('utf-8')[-1500:]}"


def _is_of(root: Path, definition: str) -> bool:
    """Is it the folder of a run of this file, far enough that it can be resumed?"""
    journal = root / "events.jsonl"
    is_run = not root.is_symlink() and journal.exists()
    return is_run and f'"{definition}"' in journal.read_text("utf-8").partition("\n")[0]


def sweep(top: Path, lanes: Lanes, number: int) -> None:
    chance = random.Random(seed_of("slots"))
    shift = chance.random()
    spots = [int((place + shift) * _CHANGES / number) + 1 for place in range(number)]
    cases = [(top / f"killed-{spot}", spot) for spot in spots]
    faults = [fault for fault in lanes.spread(cases, judge) if fault]
    assert not faults, f"{len(faults)} of {number}:\n" + "\n".join(faults[:3])


def test_a_killed_run_leaves_no_slot_taken_and_no_call_is_made_twice(
    quick_top: Path, lanes: Lanes
) -> None:
    sweep(quick_top, lanes, 2)


@pytest.mark.soak
def test_wherever_it_is_killed_no_slot_stays_taken(quick_top: Path, lanes: Lanes) -> None:
    sweep(quick_top, lanes, _CHANGES)
