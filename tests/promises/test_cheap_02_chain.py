"""Programs that were sent ahead, and kills, signals and cuts at any point: the ledger judges.

The orchestrator is also killed by `test_kill_sweep`, and what it need not have synced taken away by
`test_cheap_01_derived`; `test_power_cuts` cuts a real disk off.
"""

from __future__ import annotations

import itertools
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.promises.commands import await_lines
from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.killing import Point, can_trace, kill_at, points_in
from tests.promises.lanes import Lane, Lanes
from tests.promises.processes import programs_in
from tests.promises.shapes import CHAINED
from tests.promises.test_every_signal import sending, stopped_in, undisturbed
from tests.promises.test_keeper_kills import go_on_until_over, judge, run_with_traced_keeper
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Trial

# What the keeper writes in one call when one program follows another.
_BOTH = re.compile(r" exit [^ ]+ [^\n]*?\\n[0-9a-f]{8} claim ")


@pytest.mark.skipif(not can_trace(), reason="needs strace")
def test_an_exit_and_the_next_claim_are_one_write(quick_top: Path, lanes: Lanes) -> None:
    """Not each time on a busy machine: what comes late is asked for as any other."""
    log = quick_top / "calls"
    for number in range(5):
        trial = Trial(quick_top / str(number), CHAINED)
        with lanes.one() as lane:
            options = ["-o", str(log), "-s", "2000", "-e", "trace=pwrite64"]
            assert run_with_traced_keeper(trial, lane, options) == 0
        if _BOTH.search(log.read_text()):
            return
    pytest.fail("no program followed another")


@pytest.mark.skipif(not can_trace(), reason="needs strace; the blows need nothing")
@pytest.mark.parametrize(
    "number", [12, pytest.param(400, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_the_keeper_of_a_chain_is_killed(number: int, quick_top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of("the keeper of a chain"))
    with lanes.one() as lane:
        reference = undisturbed(quick_top, CHAINED, lane)
        log = quick_top / "calls"
        run_with_traced_keeper(Trial(quick_top / "traced", CHAINED), lane, ["-o", str(log)])
    points = points_in(log)

    def judge_point(lane: Lane, case: tuple[int, Point]) -> str:
        place, point = case
        trial = Trial(quick_top / f"k{place}", CHAINED)
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


@pytest.mark.parametrize(
    "number", [12, pytest.param(300, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_a_signal_ends_what_has_begun(number: int, quick_top: Path, lanes: Lanes) -> None:
    """A stop may come when the next program runs already, and the engine does not know it yet."""
    chance = random.Random(seed_of("a chain is stopped"))
    names = itertools.count(1)
    with lanes.one() as lane:
        reference = undisturbed(quick_top, CHAINED, lane)

    def one(lane: Lane, case: tuple[float, signal.Signals]) -> str:
        later_s, which = case
        trial = Trial(quick_top / f"s{next(names)}", CHAINED)
        try:
            begin, threads = sending(trial, which, lambda t: t.lines(), later_s)
            code = lane.run(trial.start_order(), begin)
            threads[0].join()
            recorded = check_moment(trial)
            if code != 0:
                assert not programs_in(trial.workspace), "a program has survived"
                code = go_on_until_over(trial, lane)
            check_nothing_lost(recorded, trial)
            assert not trial.lost(), "lost, though the keeper lived"
            check_same(reference, trial.left(code), stopped_in(trial))
        except AssertionError as error:
            return f"{which.name} after {later_s:.4f} s: {error}\n{trial.said()[-500:]}"
        trial.remove()
        return ""

    signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    cases = [(chance.uniform(0.0, 0.15), chance.choice(signals)) for _ in range(number)]
    faults = [fault for fault in lanes.spread(cases, one) if fault]
    assert not faults, f"{len(faults)} of {number}:\n" + "\n".join(faults[:3])


@pytest.mark.parametrize(
    "number", [3, pytest.param(60, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_a_cancel_ends_what_has_begun(number: int, quick_top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of("a chain is cancelled"))

    def one(lane: Lane, case: tuple[int, float]) -> str:
        name, later_s = case
        trial = Trial(quick_top / f"c{name}", CHAINED)
        told: list[int] = []

        def cancel(_: int) -> None:
            await_lines(trial, 1)
            time.sleep(later_s)
            words = [sys.executable, "-m", "orchestrate", "cancel", trial.root.name]
            told.append(subprocess.run(words, cwd=trial.workspace, check=False).returncode)

        cancelling: list[threading.Thread] = []

        def begin(pid: int) -> None:
            cancelling.append(threading.Thread(target=cancel, args=(pid,)))
            cancelling[0].start()

        lane.run(trial.start_order(), begin)
        cancelling[0].join()
        try:
            assert trial.status() == "cancelled" or trial.status() == "completed", trial.status()
            assert not programs_in(trial.workspace), "a program has survived"
            attempts = [line.attempt for line in trial.lines() if line.kind == "start"]
            assert len(attempts) == len(set(attempts)), "started twice"
        except AssertionError as error:
            return f"cancelled after {later_s:.3f} s: {error}\n{trial.said()[-500:]}"
        return ""

    # The command takes a while to start: most of the time goes by before it comes.
    cases = [(place, chance.uniform(0.0, 0.1)) for place in range(number)]
    faults = [fault for fault in lanes.spread(cases, one) if fault]
    assert not faults, f"{len(faults)} of {number}:\n" + "\n".join(faults[:3])
