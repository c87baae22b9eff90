"""A disk or a system that fails ends the run or the step, named; what was recorded stays, and
`resume` goes on."""

from __future__ import annotations

import random
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from tests.promises.commands import doing
from tests.promises.judging import check_moment, check_nothing_lost, check_same
from tests.promises.keepers import await_keeper
from tests.promises.killing import Point, can_trace, fail_at, points_in, tracing
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import ALL, LIFECYCLE, LINEAR, NESTED, STEADY, Shape
from tests.promises.test_keeper_kills import go_on_until_over, run_with_traced_keeper
from tests.promises.test_kill_sweep import MOST_MISSES, seed_of
from tests.promises.trials import Left, Trial

pytestmark = pytest.mark.skipif(
    not can_trace(), reason="needs strace; tests/state fills a real disk without it"
)

FAILED, INVALID, REFUSED = 1, 2, 5
CALLS = ("fdatasync", "fsync", "rename", "write")
# A full disk at each of them, a broken one where it shows; the others in `make soak`.
DISK = [(call, "ENOSPC") for call in CALLS] + [
    pytest.param(call, "EIO", marks=() if call == "fdatasync" else pytest.mark.soak)
    for call in CALLS
]
NAMES = {
    "ENOSPC": "No space left on device",
    "EIO": "Input/output error",
    "EDQUOT": "Disk quota exceeded",
    "EROFS": "Read-only file system",
    "EMFILE": "Too many open files",
    "EAGAIN": "Resource temporarily unavailable",
    "EFBIG": "File too large",
}
# How a command may end besides: what cannot be read is invalid, and a path that is read-only is a
# step's own fault.
ENDS = {"EMFILE": (INVALID,), "EROFS": (INVALID, FAILED)}
# What else can be refused, and where.
OTHERS = [
    ("write", "EDQUOT"), ("fsync", "EDQUOT"), ("rename", "EDQUOT"),
    ("openat", "EROFS"), ("mkdir", "EROFS"), ("rename", "EROFS"),
    ("openat", "EMFILE"), ("pipe2", "EMFILE"), ("socket", "EMFILE"),
    ("clone3", "EAGAIN"),
]  # fmt: skip
# Refused like the one before; `make soak` has them.
LIKE_OTHERS = [("fsync", "EDQUOT"), ("mkdir", "EROFS"), ("socket", "EMFILE")]

# What an undisturbed run leaves and calls; one is enough for all tests of a process.
_SEEN: dict[str, tuple[Left, list[Point]]] = {}


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


def earlier(tried: list[int]) -> list[int]:
    """Where else to try: a quicker run makes fewer calls than the one whose calls were counted."""
    return sorted({number * 2 // 3 or 1 for number in tried} - {*tried})


@pytest.mark.parametrize(("call", "error"), DISK)
def test_an_error_of_the_disk_costs_nothing_that_was_recorded(
    call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    """At every kind of call: the journal's append, a state's write, its rename."""
    judge_some(3, call, error, quick_top, lanes)


@pytest.mark.soak
@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_at_each_call_costs_nothing_that_was_recorded(
    call: str, shape: Shape, quick_top: Path, lanes: Lanes
) -> None:
    judge_each(shape, call, "ENOSPC", quick_top, lanes)


@pytest.mark.parametrize(("call", "error"), [one for one in OTHERS if one not in LIKE_OTHERS])
def test_what_the_system_refuses_is_named_and_gone_on_from(
    call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    """A quota, a disk that became read-only, no descriptors, no processes."""
    judge_some(1, call, error, quick_top, lanes)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("shape", "call", "error"),
    [
        pytest.param(shape, call, error, id=f"{shape.name} {call} {error}")
        for shape in (LINEAR, NESTED, LIFECYCLE)
        for call, error in OTHERS
        # An item's file in a read-only folder is not moved, says C 1.2, and the loop goes on.
        if shape is not LIFECYCLE or error != "EROFS"
    ],
)
def test_whatever_the_system_refuses_at_each_call_is_gone_on_from(
    shape: Shape, call: str, error: str, quick_top: Path, lanes: Lanes
) -> None:
    judge_each(shape, call, error, quick_top, lanes)


def judge_some(most: int, call: str, error: str, top: Path, lanes: Lanes) -> None:
    chance = random.Random(seed_of(f"{call} {error}"))
    if LINEAR.name not in _SEEN:
        with lanes.one() as lane:
            _SEEN[LINEAR.name] = undisturbed(top, LINEAR, lane)
    reference, points = _SEEN[LINEAR.name]
    judge_errors(top, LINEAR, reference, call, error, numbers_of(points, call, most, chance), lanes)


def judge_each(shape: Shape, call: str, error: str, top: Path, lanes: Lanes) -> None:
    with lanes.one() as lane:
        reference, points = undisturbed(top, shape, lane)
    numbers = [number for name, number in points if name == call]
    judge_errors(top, shape, reference, call, error, numbers, lanes)


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

    tried: list[int] = []
    for _ in range(MOST_MISSES):
        told = lanes.spread(numbers, judge)
        faults = [fault for fault in told if fault not in ("coped", "stopped")]
        assert not faults, f"{len(faults)} of {len(numbers)}:\n" + "\n".join(faults[:3])[:4000]
        if "stopped" in told:
            return
        tried += numbers
        numbers = earlier(tried)
    raise AssertionError(f"no error of {tried} mattered")


def judge_one(trial: Trial, reference: Left, lane: Lane, options: list[str], error: str) -> str:
    with tracing(options) as attach:
        code = trial.go_on(lane, attach)
    return judge_rest(trial, reference, lane, code, error)


def judge_rest(trial: Trial, reference: Left, lane: Lane, code: int, error: str) -> str:
    """It went well, or it said why not, and the next command brings it to the same end."""
    said = trial.said()
    recorded = check_moment(trial)
    ends = (reference.code, REFUSED, *ENDS.get(error, ()))
    assert code in ends, f"exit code {code}: {said}"
    assert "Traceback" not in said
    is_failed = code == FAILED != reference.code
    if code != reference.code:
        assert NAMES[error] in said, f"the error is not named: {said}"
        assert code != INVALID or not trial.roots(), "a run of what could not be read"
        code = trial.go_on(lane)
    check_nothing_lost(recorded, trial)
    # That a step failed in between is a decision, and stays on record.
    check_same(reference, trial.left(code), set(), by_deeds=is_failed)
    trial.remove()
    return "stopped" if NAMES[error] in said else "coped"


@pytest.mark.parametrize("step", [3001, pytest.param(307, marks=pytest.mark.soak)])
def test_a_write_that_is_cut_short_is_not_believed(
    step: int, quick_top: Path, lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file may grow beyond a size: a write that reaches it takes a part, the next one fails."""
    monkeypatch.setenv("NO_COLOR", "1")  # as `doing` has it; the state counts variables
    with lanes.one() as lane:
        whole = Trial(quick_top / "undisturbed", LINEAR)
        reference = whole.left(whole.go_on(lane))
        largest = (whole.root / "events.jsonl").stat().st_size

    def judge(lane: Lane, limit: int) -> str:
        trial = Trial(quick_top / f"at-{limit}", LINEAR)
        hold = trial.top / "hold"
        hold.write_text("0")
        # Not on a lane: there it speaks into a file, and the limit would silence it.
        with doing(trial, "run", "w.yaml") as process:
            # The keeper has files of its own, and needs more room.
            await_keeper(trial)
            with suppress(ProcessLookupError):
                unlimited = resource.RLIM_INFINITY
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, unlimited))
            hold.unlink()
            _, said = process.communicate(timeout=120)
        trial.stderr.write_text(said, "utf-8")
        return judge_rest(trial, reference, lane, process.returncode, "EFBIG")

    limits = list(range(random.randrange(1, step), largest, step))
    told = lanes.spread(limits, judge)
    print(f"{len(told)} limits, {told.count('stopped')} of them stopped it")
    assert "stopped" in told


def test_a_disk_that_stays_full_is_named_and_survived(quick_top: Path, lanes: Lanes) -> None:
    """Every append to the journal fails; what the state was before is there, whole, afterwards."""
    with lanes.one() as lane:
        reference, points = undisturbed(quick_top, LINEAR, lane)
        syncs = [number for name, number in points if name == "fdatasync"]
        trial = Trial(quick_top / "full", LINEAR)
        with tracing(fail_at("fdatasync", "ENOSPC", f"{syncs[len(syncs) // 3]}+")) as attach:
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
def test_a_keeper_whose_disk_fails_repeats_nothing_that_counts(
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
        check_same(reference, trial.left(code), trial.lost() | trial.void())
        said = trial.said()
        trial.remove()
        return said

    tried: list[int] = []
    numbers = numbers_of(points_in(log), call, 4, chance)
    for _ in range(MOST_MISSES):
        told = lanes.spread(numbers, judge)
        if any("lost" in said or NAMES[error] in said for said in told):
            return
        tried += numbers
        numbers = earlier(tried)
    pytest.fail(f"nothing came of an error at {tried}")
