"""What the keeper costs: a durable step, its own start, and finding an attempt among many.

    .venv/bin/python benchmarks/keeper.py [--steps 1000] [--repeat 5] [--folder DIR]

A step is `/bin/true` through `Keeper.run` and one line of 200 bytes that the caller appends and
syncs, as the engine does: three syncs in all. It is held against `subprocess.run` of the same
program; both take turns in blocks, in one process. Only ratios count (see README.md). "fastest
tenth" compares the tenth of all single steps that nothing disturbed: on a busy machine it says more
than the mean. On a memory file system (`--folder /dev/shm`) syncs are free, and what is left is
the keeper's own time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from orchestrate.execute.flat_json import json_of  # noqa: E402  needs the path
from orchestrate.execute.keeper.client import Keeper, ensure_keeper  # noqa: E402
from orchestrate.execute.keeper.facts import Ended, Request  # noqa: E402
from orchestrate.execute.keeper.journal import KeeperJournal  # noqa: E402
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL  # noqa: E402

BLOCK = 50
PROGRAM = "/bin/true"


@dataclass(frozen=True, slots=True)
class Pair:
    """The times of single steps, and of what they are held against, in seconds."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        return sum(self.ours) / sum(self.theirs)


def take_turns(ours: Callable[[], None], theirs: Callable[[], None], steps: int) -> Pair:
    pair = Pair([], [])
    for _ in range(0, steps, BLOCK):
        for function, times in ((ours, pair.ours), (theirs, pair.theirs)):
            for _ in range(BLOCK):
                began = time.perf_counter()
                function()
                times.append(time.perf_counter() - began)
    return pair


class Steps:
    """Durable steps of one run, one after the other."""

    def __init__(self, keeper: Keeper, *, guarded: bool) -> None:
        self._keeper = keeper
        self._guarded = guarded
        self._env = dict(os.environ)
        self._done = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._journal = os.open(keeper.run_dir / f"events-{guarded}", flags, 0o600)

    def __call__(self) -> None:
        self._done += 1
        attempt = f"step-{self._guarded:d}-{os.getpid()}-{self._done}"
        folder = self._keeper.run_dir
        request = Request(
            attempt,
            (PROGRAM,),
            self._env,
            folder,
            folder / f"{attempt}.stdout",
            folder / f"{attempt}.stderr",
            guarded=self._guarded,
        )
        if not isinstance(self._keeper.run(request), Ended):
            raise RuntimeError("the step did not end as it should")
        os.write(self._journal, b"x" * 199 + b"\n")
        os.fdatasync(self._journal)


def run_bare() -> None:
    subprocess.run([PROGRAM], check=True)


def measure_steps(folder: Path, steps: int, repeat: int, *, guarded: bool) -> None:
    with ensure_keeper(folder) as keeper:
        ours = Steps(keeper, guarded=guarded)
        take_turns(ours, run_bare, BLOCK)
        pairs = [take_turns(ours, run_bare, steps) for _ in range(repeat)]
        keeper.shutdown()
    print(f"step, {'guarded' if guarded else 'plain'}, {steps} of them, {repeat} times")
    for pair in pairs:
        print(
            f"  {1e3 * statistics.mean(pair.ours):6.3f} ms"
            f"  subprocess.run {1e3 * statistics.mean(pair.theirs):6.3f} ms  x {pair.ratio:.2f}"
        )
    ratios = [pair.ratio for pair in pairs]
    tenth = [
        sorted(times)[len(times) // 10]
        for times in ([t for p in pairs for t in p.ours], [t for p in pairs for t in p.theirs])
    ]
    print(
        f"  best x {min(ratios):.2f}, median x {statistics.median(ratios):.2f}, fastest tenth"
        f" {1e3 * tenth[0]:.3f} / {1e3 * tenth[1]:.3f} ms = x {tenth[0] / tenth[1]:.2f}"
    )


def measure_start(folder: Path, repeat: int) -> None:
    bare, ours = [], []
    for number in range(4 * repeat):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        bare.append(time.perf_counter() - began)
        began = time.perf_counter()
        keeper = ensure_keeper(folder / f"run-{number}")
        ours.append(time.perf_counter() - began)
        keeper.shutdown()
    for name, choose in (("best", min), ("median", statistics.median)):
        left, right = choose(ours), choose(bare)
        print(
            f"start, {name}: ensure_keeper {1e3 * left:.1f} ms, python -I -S -c pass"
            f" {1e3 * right:.1f} ms, x {left / right:.2f}"
        )


def measure_finding(folder: Path, attempts: int, repeat: int) -> None:
    (folder / FOLDER).mkdir(parents=True)
    journal = KeeperJournal(str(folder / FOLDER / JOURNAL))
    numbers = dict.fromkeys(
        ("signal", "pid", "stdout_bytes", "stderr_bytes", "max_rss_kb", "survivors"), 12345
    )
    faults = ("start_fault", "stdout_fault", "stderr_fault", "tee_fault")
    texts = dict.fromkeys(("stopped", "start_error", *faults, "stderr"), "")
    times = dict.fromkeys(("started_at", "ended_at", "duration_s"), 1234567890.123456)
    record = {"code": None, "timed_out": False, "stdout": "x" * 100, **numbers, **texts, **times}
    for number in range(attempts):
        journal.note("claim", f"steps.Loop[{number}].Step@1", json_of({"at": 1234567890.123456}))
        journal.note("exit", f"steps.Loop[{number}].Step@1", json_of(record))
    journal.commit()
    starts, finds = [], []
    for _ in range(2 * repeat):
        began = time.perf_counter()
        keeper = ensure_keeper(folder)
        starts.append(time.perf_counter() - began)
        began = time.perf_counter()
        if not isinstance(keeper.adopt(f"steps.Loop[{attempts // 2}].Step@1"), Ended):
            raise TypeError("an attempt on record was not found")
        finds.append(time.perf_counter() - began)
        keeper.shutdown()
    print(
        f"{attempts} attempts on record: ensure_keeper {1e3 * min(starts):.1f} ms,"
        f" adopt {1e3 * min(finds):.1f} ms (best)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks/keeper.py", description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keeper-bench-", dir=options.folder) as name:
        folder = Path(name).resolve()
        measure_start(folder / "start", options.repeat)
        measure_finding(folder / "many", 10_000, options.repeat)
        for guarded in (False, True):
            run_dir = folder / f"steps-{guarded}"
            measure_steps(run_dir, options.steps, options.repeat, guarded=guarded)


if __name__ == "__main__":
    main()
