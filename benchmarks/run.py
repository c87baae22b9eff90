"""Measures orchestrate beside what it is held against, and prints the ratios (see README.md)."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Asked before the path is changed: processes that we start do not see the change. What is installed
# may also be another checkout, and then it is not what we measure in this process.
_FOUND = importlib.util.find_spec("orchestrate")
INSTALLED = _FOUND is not None and _FOUND.origin == str(REPOSITORY / "orchestrate" / "__init__.py")
sys.path.insert(0, str(REPOSITORY))

from benchmarks.cases import BENCHMARKS, Row, Setting, require_c_part  # noqa: E402  needs the path
from benchmarks.generate import write_workspace  # noqa: E402
from benchmarks.measure import clean_environment  # noqa: E402

ROUNDS = 15
QUICK_ROUNDS = 3
SMALL = {"workflow": 10, "recipe": 10, "machine": 10}
LARGE = {"workflow": 2000, "recipe": 2000, "machine": 500}
QUICK_LARGE = {"workflow": 200, "recipe": 200, "machine": 50}


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    require_c_part()
    large = QUICK_LARGE if options.quick else LARGE
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    results: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as name:
        folder = Path(name).resolve()
        sizes = {dialect: (SMALL[dialect], large[dialect]) for dialect in large}
        files = write_workspace(folder, sizes)
        setting = Setting(
            folder,
            clean_environment(REPOSITORY, installed=INSTALLED),
            {dialect: files[dialect, count] for dialect, count in SMALL.items()},
            {dialect: files[dialect, count] for dialect, count in large.items()},
            rounds,
        )
        for chosen in options.names or BENCHMARKS:
            results[chosen] = BENCHMARKS[chosen].run(setting)
            if not options.json:
                print(_table(BENCHMARKS[chosen].title, results[chosen]), flush=True)
    if options.json:
        print(json.dumps(_document(results, rounds, options.quick), indent=2))
    over = any(row.is_over for rows in results.values() for row in rows)
    return 1 if options.check and over else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="few rounds, smaller files: a look")
    parser.add_argument("--rounds", type=int, help=f"samples of each subject (default {ROUNDS})")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is over")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark '{unknown[0]}'")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds takes a positive number")
    return options


def _table(title: str, rows: Sequence[Row]) -> str:
    head = ("measured", "", "baseline", "", "ratio", "cpu", "reach", "")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if column in (0, 2, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    texts.insert(1, "-" * max(map(len, texts)))
    return f"{title}\n\n" + "\n".join(texts) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "" if row.reach is None else "over" if row.is_over else "ok"
    return (
        row.measured,
        f"{row.value:.1f} {row.unit}",
        row.baseline,
        f"{row.base_value:.1f} {row.unit}",
        f"{row.ratio:.2f}",
        "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}",
        "" if row.reach is None else f"{row.reach:.1f}",
        verdict,
    )


def _document(results: dict[str, list[Row]], rounds: int, quick: bool) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "rounds": rounds,
        "quick": quick,
        "benchmarks": {
            name: [
                {
                    "measured": row.measured,
                    "baseline": row.baseline,
                    "unit": row.unit,
                    "measured_value": round(row.value, 3),
                    "baseline_value": round(row.base_value, 3),
                    "ratio": round(row.ratio, 3),
                    "cpu_ratio": None if row.cpu_ratio is None else round(row.cpu_ratio, 3),
                    "reach": row.reach,
                    "ok": None if row.reach is None else not row.is_over,
                }
                for row in rows
            ]
            for name, rows in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
