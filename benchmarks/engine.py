"""What a run costs: a durable step, its growth over a loop, resuming, memory, idling.

    .venv/bin/python benchmarks/engine.py [--items 100 1000] [--large 10000] [--rounds 3]

Each figure is a ratio to something measured in the same rounds, in turns (see README.md): a step
to `subprocess.run` of the same no-op, a loop of many items to one of few, a resume to `validate` of
the same file. The start of the command is taken off by the difference between two sizes of loop.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

PROGRAM = "/bin/true"
_PATIENCE_S = 600.0
_HALF_WAY_POLL_S = 0.005


def main() -> int:
    options = _parse()
    rows: list[tuple[str, str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-", dir=options.folder) as name:
        folder = Path(name)
        rows += steps(folder / "steps", options.items, options.rounds)
        rows += peers(folder / "peers", 500)
        rows += growth(folder / "growth", 100, options.large)
        rows += resuming(folder / "resume", 1000, "2.0")
        if options.large >= 10_000:
            rows += resuming(folder / "resume-large", options.large, "3.0")
        rows += idling(folder / "idle", options.seconds)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs=2, default=[100, 1100])
    parser.add_argument("--large", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", help="where the runs lie (default: the temporary folder)")
    return parser.parse_args()


def workspace(folder: Path, items: int, command: list[str] | None = None) -> Path:
    """A folder with a workflow that loops over so many items."""
    folder.mkdir(parents=True, exist_ok=True)
    step = {"name": "Do", "command": command or [PROGRAM]}
    loop = {"name": "Loop", "for_each": {"items": list(range(items)), "steps": [step]}}
    document = {"version": "1.1", "name": "bench", "steps": [loop]}
    (folder / "w.yaml").write_text(json.dumps(document))
    return folder


def orchestrate(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "orchestrate", *arguments]


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def run(folder: Path, *arguments: str) -> float:
    # Without byte code Python's compiler would be what is measured.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def call() -> None:
        subprocess.run(
            orchestrate(*arguments), cwd=folder, env=env, check=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_PATIENCE_S,
        )  # fmt: skip

    return timed(call)


def steps(folder: Path, items: list[int], rounds: int) -> list[tuple[str, str, str, str]]:
    """The cost of one more step, against `subprocess.run`."""
    few, many = sorted(items)
    ratios, own, base = [], [], []
    for _ in range(rounds):
        short = run(workspace(folder / "few", few), "run", "w.yaml", "--quiet")
        bare = timed(lambda: [subprocess.run([PROGRAM], check=True) for _ in range(many - few)])
        long = run(workspace(folder / "many", many), "run", "w.yaml", "--quiet")
        own.append((long - short) / (many - few))
        base.append(bare / (many - few))
        ratios.append(own[-1] / base[-1])
    figures = f"{statistics.median(own) * 1000:.2f} ms / {statistics.median(base) * 1000:.2f} ms"
    shown = f"{min(ratios):.2f} best, {statistics.median(ratios):.2f} median"
    return [("a durable step / subprocess.run", figures, shown, "reach 1.8")]


def peers(folder: Path, count: int) -> list[tuple[str, str, str, str]]:
    """What others that are on most machines take for as many no-ops; they record nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = " ".join(f"t{number}" for number in range(count))
    makefile = f"all: {targets}\n{targets}:\n\t@{PROGRAM}\n.PHONY: all {targets}\n"
    (folder / "Makefile").write_text(makefile)
    loop = f"for i in $(seq {count}); do {PROGRAM}; done"
    rows = []
    for name, command in (("bash loop", ["bash", "-c", loop]), ("make", ["make", "-s", "all"])):
        if shutil.which(command[0]) is None:
            continue
        base = timed(lambda: [subprocess.run([PROGRAM], check=True) for _ in range(count)])
        took = timed(partial(subprocess.run, command, cwd=folder, check=True))
        figures = f"{took / count * 1000:.2f} ms / {base / count * 1000:.2f} ms"
        rows.append((f"{name} / subprocess.run", figures, f"{took / base:.2f}", "peer"))
    return rows


def growth(folder: Path, few: int, many: int) -> list[tuple[str, str, str, str]]:
    """The cost per item of a long loop against a short one, and its memory and bytes."""
    shorts = [run(workspace(folder / "few", few), "run", "w.yaml", "--quiet") for _ in range(3)]
    start = min(run(workspace(folder / "one", 1), "run", "w.yaml", "--quiet") for _ in range(3))
    short = (min(shorts) - start) / (few - 1)
    place = workspace(folder / "many", many)
    began = time.perf_counter()
    process = subprocess.Popen(
        orchestrate("run", "w.yaml", "--quiet"), cwd=place, stderr=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(process.pid, 0)
    long = (time.perf_counter() - began - start) / (many - 1)
    journal = (place / ".orchestrate/runs/latest/events.jsonl").stat().st_size
    return [
        (f"a step at {many} items / at {few}", f"{long * 1000:.2f} ms / {short * 1000:.2f} ms",
         f"{long / short:.2f}", "reach 1.2"),
        (f"memory at {many} finished items", f"{usage.ru_maxrss / 1024:.0f} MB", "", "reach 60 MB"),
        ("journal bytes per step", f"{journal / many:.0f}", "", "constant"),
    ]  # fmt: skip


def resuming(folder: Path, items: int, reach: str) -> list[tuple[str, str, str, str]]:
    """From `resume` to the first new step after a kill half-way, against `validate`."""
    ledger = folder / "ledger"
    place = workspace(folder, items, ["sh", "-c", "echo x >> ledger"])
    process = subprocess.Popen(
        orchestrate("run", "w.yaml", "--quiet"), cwd=place, stderr=subprocess.DEVNULL
    )
    while _lines(ledger) < items // 2 and process.poll() is None:
        time.sleep(_HALF_WAY_POLL_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    validate = statistics.median(run(place, "validate", "w.yaml") for _ in range(5))
    before = _lines(ledger)
    began = time.perf_counter()
    resumed = subprocess.Popen(
        orchestrate("resume", "latest", "--quiet"), cwd=place, stderr=subprocess.DEVNULL
    )
    while _lines(ledger) == before and resumed.poll() is None:
        time.sleep(0.001)
    first = time.perf_counter() - began
    resumed.wait()
    done = "nothing repeated" if _lines(ledger) == items else f"{_lines(ledger)} lines!"
    return [(f"resume at {items // 2} of {items} / validate",
             f"{first * 1000:.0f} ms / {validate * 1000:.0f} ms ({done})",
             f"{first / validate:.2f}", f"reach {reach}")]  # fmt: skip


def _lines(path: Path) -> int:
    try:
        return path.stat().st_size // 2
    except FileNotFoundError:
        return 0


def idling(folder: Path, seconds: float) -> list[tuple[str, str, str, str]]:
    """The processor time of orchestrator and keeper while a program works."""
    place = workspace(folder, 1, ["sleep", str(seconds)])
    process = subprocess.Popen(
        orchestrate("run", "w.yaml", "--quiet"), cwd=place, stderr=subprocess.DEVNULL
    )
    time.sleep(min(2.0, seconds / 3))
    before = _cpu(process.pid)
    began = time.perf_counter()
    time.sleep(seconds / 2)
    share = (_cpu(process.pid) - before) / (time.perf_counter() - began)
    process.wait()
    return [("orchestrator while a program works", f"{share * 100:.3f} % of a core", "", "0.2 %")]


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
