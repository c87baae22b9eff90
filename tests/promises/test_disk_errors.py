"""A full or broken disk ends the run with its error named; what was recorded stays, and goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.killing import Point, can_trace, fail_at, points_in, tracing
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import LINEAR, STEADY, Shape
from tests.promises.test_keeper_kills import go_on_until_over, run_with_traced_keeper
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Left, Trial

pytestmark = pytest.mark.skipif(
    not can_trace(), reason="needs strace; tests/state fills a real disk without it"
)

REFUSED = 5
NAMES = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}


def undisturbed(top: Path, shape: Shape, lane: Lane) -> tuple[Left, list[Point]]:
    log = top / "calls"
    trial = Trial(top / "undisturbed", shape)
    with tracing(["-o", str(log)]) as attach:
        code = trial.go_on(lane, attach)
    assert code == 0, trial.said()
    return trial.left(code), points_in(log)


def numbers_of(points: list[Point], call: str, most: int, chance: random.Random) -> list[int]:
    """Some of the calls of a name, the first and the last of them among those."""
    last = max(number for name, number in points if name == call)
    between = range(2, last)
    return sorted({1, last, *chance.sample(between, min(most, len(between)))})


@pytest.mark.parametrize("error", NAMES)
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "rename", "write"])
def test_an_error_of_the_disk_costs_nothing_that_was_recorded(
    call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    """In front of every kind of call: the journal's append, a state's write, its rename."""
    chance = random.Random(seed_of(f"{call} {error}"))
    with lanes.one() as lane:
        reference, points = undisturbed(quick_top, LINEAR, lane)

    def judge(lane: Lane, number: int) -> int:
        trial = Trial(quick_top / str(number), LINEAR)
        with tracing(fail_at(call, error, str(number))) as attach:
            code = trial.go_on(lane, attach)
        said = trial.said()
        recorded = check_moment(trial)
        assert code in (0, REFUSED), f"{call} {number}: exit code {code}: {said}"
        assert "Traceback" not in said
        if code == REFUSED:
            assert NAMES[error] in said, f"{call} {number}: the error is not named: {said}"
            code = trial.go_on(lane)
        check_nothing_lost(recorded, trial)
        check_same(reference, trial.left(code), set())
        refused = REFUSED if NAMES[error] in said else 0
        trial.remove()
        return refused

    chosen = numbers_of(points, call, 8, chance)
    codes = lanes.spread(chosen, judge)
    assert REFUSED in codes, f"no error of {chosen} mattered"


def test_a_disk_that_stays_full_is_named_and_survived(quick_top: Path, lanes: Lanes) -> None:
    """Every append to the journal fails; what the state was before is there, whole, afterwards."""
    with lanes.one() as lane:
        reference, points = undisturbed(quick_top, LINEAR, lane)
        syncs = [number for name, number in points if name == "fdatasync"]
        trial = Trial(quick_top / "full", LINEAR)
        with tracing(fail_at("fdatasync", "ENOSPC", f"{syncs[len(syncs) // 2]}+")) as attach:
            assert trial.go_on(lane, attach) == REFUSED
        recorded = check_moment(trial)
        events = trial.root / "events.jsonl"
        with tracing(fail_at("write", "ENOSPC", "1+", events)) as attach:
            assert trial.go_on(lane, attach) == REFUSED
        assert trial.events() == recorded
        assert trial.said().count(NAMES["ENOSPC"]) == 2
        code = trial.go_on(lane)
    check_nothing_lost(recorded, trial)
    check_same(reference, trial.left(code), set())


@pytest.mark.parametrize(
    ("call", "error"), [("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fdatasync", "EIO")]
)
def test_a_keeper_whose_disk_fails_repeats_nothing(
    call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    chance = random.Random(seed_of(f"keeper's {call} {error}"))
    with lanes.one() as lane:
        trial = Trial(quick_top / "undisturbed", STEADY)
        log = quick_top / "calls"
        code = run_with_traced_keeper(trial, lane, ["-o", str(log)])
        reference = trial.left(code)

    def judge(lane: Lane, number: int) -> str:
        trial = Trial(quick_top / str(number), STEADY)
        code = run_with_traced_keeper(trial, lane, fail_at(call, error, str(number)))
        recorded = check_moment(trial)
        assert code in (0, REFUSED), f"{call} {number}: exit code {code}: {trial.said()}"
        assert "Traceback" not in trial.said()
        if code == REFUSED:
            code = go_on_until_over(trial, lane)
        check_nothing_lost(recorded, trial)
        check_same(reference, trial.left(code), trial.lost())
        said = trial.said()
        trial.remove()
        return said

    told = lanes.spread(numbers_of(points_in(log), call, 4, chance), judge)
    assert any("lost" in said or NAMES[error] in said for said in told), "nothing came of it"
