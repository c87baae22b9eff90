"""A full or broken disk ends the run with its error named; what was recorded stays, and goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.killing import Point, can_trace, fail_at, points_in, tracing
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import ALL, LINEAR, STEADY, Shape
from tests.promises.test_keeper_kills import go_on_until_over, run_with_traced_keeper
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Left, Trial

pytestmark = pytest.mark.skipif(
    not can_trace(), reason="needs strace; tests/state fills a real disk without it"
)

REFUSED = 5
CALLS = ("fdatasync", "fsync", "rename", "write")
NAMES = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}


def undisturbed(top: Path, shape: Shape, lane: Lane) -> tuple[Left, list[Point]]:
    log = top / "calls"
    trial = Trial(top / "undisturbed", shape)
    with trial.company(), tracing(["-o", str(log)]) as attach:
        code = trial.go_on(lane, attach)
    assert code == shape.exit_code, trial.said()
    return trial.left(code), points_in(log)


def numbers_of(points: list[Point], call: str, most: int, chance: random.Random) -> list[int]:
    """Some of the calls of a name, the first and the last few of them among those."""
    last = max(number for name, number in points if name == call)
    chosen = chance.sample(range(1, last + 1), min(most, last))
    return sorted({1, *range(max(1, last - 5), last + 1), *chosen})


@pytest.mark.parametrize("error", NAMES)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_disk_costs_nothing_that_was_recorded(
    call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    """At every kind of call: the journal's append, a state's write, its rename."""
    chance = random.Random(seed_of(f"{call} {error}"))
    with lanes.one() as lane:
        reference, points = undisturbed(quick_top, LINEAR, lane)
    judge_errors(
        quick_top, LINEAR, reference, call, error, numbers_of(points, call, 8, chance), lanes
    )


@pytest.mark.soak
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_at_each_call_costs_nothing_that_was_recorded(
    call: str, shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    with lanes.one() as lane:
        reference, points = undisturbed(quick_top, shape, lane)
    numbers = [number for name, number in points if name == call]
    judge_errors(quick_top, shape, reference, call, "ENOSPC", numbers, lanes)


def judge_errors(
    top: Path,
    shape: Shape,
    reference: Left,
    call: str,
    error: str,
    numbers: list[int],
    lanes: Lanes,
) -> None:
    """Let one call fail in each run; the run copes, or says why it stops and is then resumed."""

    def judge(lane: Lane, number: int) -> str:
        trial = Trial(top / str(number), shape)
        try:
            with trial.company():
                return judge_one(trial, reference, lane, fail_at(call, error, str(number)), error)
        except AssertionError as fault:
            return f"{call} {number}: {fault}"

    told = lanes.spread(numbers, judge)
    faults = [fault for fault in told if fault not in ("coped", "stopped")]
    assert not faults, f"{len(faults)} of {len(numbers)}:\n" + "\n".join(faults[:3])[:4000]
    assert "stopped" in told, f"no error of {numbers} mattered"


def judge_one(trial: Trial, reference: Left, lane: Lane, options: list[str], error: str) -> str:
    with tracing(options) as attach:
        code = trial.go_on(lane, attach)
    said = trial.said()
    recorded = check_moment(trial)
    assert code in (reference.code, REFUSED), f"exit code {code}: {said}"
    assert "Traceback" not in said
    if code == REFUSED:
        assert NAMES[error] in said, f"the error is not named: {said}"
        code = trial.go_on(lane)
    check_nothing_lost(recorded, trial)
    check_same(reference, trial.left(code), set())
    trial.remove()
    return "stopped" if NAMES[error] in said else "coped"


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
