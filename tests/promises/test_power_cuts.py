"""A power cut takes all processes, and of the files what was not synced; `resume` copes with that.

Twice over. By a model: the tests kill everybody and then take away what a disk may lose, which is
the journal's lines since its last sync and the newest name of the state's file. And for real where
root may mount: an ext4 in a file is shut down with nothing flushed (`cutting`).
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.promises.agent_shapes import STEADY_MACHINE, STEADY_RECIPE
from tests.promises.commands import await_lines
from tests.promises.judging import check_same
from tests.promises.keepers import kill_keeper_and_company
from tests.promises.lanes import Lane, Lanes, strike_in_thread
from tests.promises.processes import kill
from tests.promises.shapes import CHAINED, DERIVED, STEADY, Shape
from tests.promises.test_keeper_kills import go_on_until_over
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Trial


def lose_nothing(root: Path) -> None:
    """Everything happened to be on the disk."""


def lose_the_unsynced_line(root: Path) -> None:
    """That a step is about to start is not synced: nobody acts on it before the keeper's claim."""
    events = root / "events.jsonl"
    events.write_bytes(b"".join(_synced(root)))


def lose_its_content(root: Path) -> None:
    """The file has its new size, but the last block was never written."""
    events = root / "events.jsonl"
    kept = b"".join(_synced(root))
    events.write_bytes(kept.ljust(events.stat().st_size, b"\0"))


def lose_half_of_it(root: Path) -> None:
    events = root / "events.jsonl"
    kept = b"".join(_synced(root))
    events.write_bytes(events.read_bytes()[: (len(kept) + events.stat().st_size) // 2])


def lose_the_new_state(root: Path) -> None:
    """The state was renamed into its place, but the folder was not synced."""
    first = root.parent.parent.parent.parent / "first-state"
    (root / "state.json").write_bytes(first.read_bytes())


def lose_both(root: Path) -> None:
    lose_the_new_state(root)
    lose_the_unsynced_line(root)


LOSSES = (
    lose_nothing,
    lose_the_unsynced_line,
    lose_its_content,
    lose_half_of_it,
    lose_the_new_state,
    lose_both,
)


def _synced(root: Path) -> list[bytes]:
    """The lines that are surely there: a state is written when all that it has was synced."""
    lines = (root / "events.jsonl").read_bytes().splitlines(keepends=True)
    in_state = json.loads((root / "state.json").read_bytes())["seq"]
    while len(lines) > in_state and b'"event":{"on":"step-started"' in lines[-1]:
        del lines[-1]
    return lines


# After which lines of the ledger the power is cut: after the start of a step outside of loops,
# whose state was just written, and inside.
CUTS = {
    STEADY.name: (STEADY, [1, 3, 9, 21]),
    STEADY_RECIPE.name: (STEADY_RECIPE, [1, 2, 4, 5]),
    STEADY_MACHINE.name: (STEADY_MACHINE, [1, 2, 3, 4]),
}
# What is lost matters most where an agent's call has been announced.
CASES = [(STEADY.name, loss) for loss in LOSSES] + [
    (name, loss)
    for name in (STEADY_RECIPE.name, STEADY_MACHINE.name)
    for loss in (lose_the_unsynced_line, lose_both)
]


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_a_run_goes_on_after_a_power_cut(
    name: str, loss: Callable[[Path], None], quick_top: Path, lanes: Lanes
) -> None:
    shape, cuts = CUTS[name]
    whole = Trial(quick_top / "whole", shape)
    with lanes.one() as lane:
        reference = whole.left(whole.go_on(lane))

    def judge(lane: Lane, lines: int) -> str:
        trial = Trial(quick_top / str(lines), shape)
        hold = trial.top / "hold"
        hold.write_text(str(lines))

        def cut(pid: int) -> None:
            await_lines(trial, 1)
            (trial.top / "first-state").write_bytes((trial.root / "state.json").read_bytes())
            await_lines(trial, lines)
            kill(pid)
            kill_keeper_and_company(trial)

        code = lane.run(trial.start_order(), strike_in_thread(cut))
        assert code == -9
        hold.unlink()
        loss(trial.root)
        try:
            code = go_on_until_over(trial, lane)
            check_same(reference, trial.left(code), trial.lost())
        except AssertionError as error:
            return f"cut after line {lines}: {error}"
        return ""

    faults = [fault for fault in lanes.spread(cuts, judge) if fault]
    assert not faults, f"{len(faults)} of 4:\n" + "\n".join(faults)[:3000]


@functools.cache
def can_cut() -> bool:
    """May we make, mount and shut down a file system of our own?"""
    if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "unshare", "losetup"))):
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = "truncate -s 8M i && mkfs.ext4 -q -F i && mkdir m && mount -o loop i m && umount m"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", tried], cwd=folder, capture_output=True, check=False
        )
    return done.returncode == 0


@pytest.mark.skipif(not can_cut(), reason="needs root and loop devices; the model above does not")
@pytest.mark.parametrize(
    ("shape", "cuts"),
    [
        (STEADY, 3),
        (DERIVED, 4),
        (CHAINED, 4),
        pytest.param(DERIVED, 120, marks=pytest.mark.soak),
        pytest.param(CHAINED, 120, marks=pytest.mark.soak),
        pytest.param(STEADY, 120, marks=pytest.mark.soak),
        pytest.param(STEADY_RECIPE, 110, marks=pytest.mark.soak),
        pytest.param(STEADY_MACHINE, 110, marks=pytest.mark.soak),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_run_goes_on_after_a_real_disk_was_cut_off(
    shape: Shape, cuts: int, quick_top: Path
) -> None:
    seed = seed_of(f"{cuts} cuts of {shape.name}")
    words = [sys.executable, "-m", "tests.promises.cutting"]
    done = subprocess.run(
        ["unshare", "-m", *words, str(quick_top), shape.name, str(cuts), str(seed)],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=cuts * 20 + 60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    print(f"{shape.name}: {told['cuts']} cuts, {told['lost']} attempts lost")
    assert not told["faults"], f"{len(told['faults'])} of {cuts}:\n" + "\n".join(told["faults"][:3])
