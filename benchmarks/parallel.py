"""Measures loops of recipes: 200 items 16 at once beside the ideal, and 10,000 one after another.

    python benchmarks/parallel.py [--quick] [--json] [--check]

Fan-out: agents that only sleep, so that the ideal is known: rounds of 16, each as long as a sleep.
The same programs, started by a pool of threads, show how much of the rest is the machine's.
Sequence: what an item costs in a loop of 10,000, held against one of 100. B allows a recipe 1,000
steps; that limit is lifted here, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from orchestrate.app.ending.stopping import stoppable  # noqa: E402
from orchestrate.app.given.settings import RunSettings  # noqa: E402
from orchestrate.app.starting.new_run import start_run  # noqa: E402
from orchestrate.app.working.carry_out import carry_out  # noqa: E402  needs the path
from orchestrate.cli.reporting import CommandLine  # noqa: E402
from orchestrate.compile import compile_file, require_program  # noqa: E402
from orchestrate.record import replace  # noqa: E402
from orchestrate.state.runs import open_runs  # noqa: E402
from orchestrate.view.display_options import DisplayOptions  # noqa: E402
from orchestrate.workspace import open_workspace  # noqa: E402

AGENT = "---\nname: helper\ndescription: Helps\n---\nYou help.\n"
# What a sleeping agent says; the session does not matter to a recipe.
_ANSWER = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done"})
_SLEEPER = """\
#!/bin/sh
test "$1" = --version && exec echo "2.1.325 (Claude Code)"
cat > /dev/null
sleep {sleep_s}
echo {answer}
"""
_FAN_OUT_REACH = 1.3
_SEQUENCE_REACH = 1.2


@dataclass(frozen=True, slots=True)
class Row:
    """A figure beside what it is held against."""

    measured: str
    value: float
    baseline: str
    base_value: float
    unit: str
    reach: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.base_value

    @property
    def is_over(self) -> bool:
        return self.reach is not None and self.ratio > self.reach


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/parallel.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer items: a look")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is over")
    parser.add_argument("--sequence", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.sequence is not None:
        return run_sequence(Path.cwd(), options.sequence)
    rows = [
        *fan_out(items=48 if options.quick else 200, at_once=16, sleep_s=0.5),
        *sequence(few=100, many=1000 if options.quick else 10_000),
    ]
    if options.json:
        print(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=2))
    else:
        for row in rows:
            print(_line(row))
    return 1 if options.check and any(row.is_over for row in rows) else 0


def _line(row: Row) -> str:
    reach = "" if row.reach is None else f"  reach {row.reach:g}: {'over' if row.is_over else 'ok'}"
    return (
        f"{row.measured:<34} {row.value:>9.3f} {row.unit:<3} {row.baseline:<26} "
        f"{row.base_value:>9.3f} {row.unit:<3} ratio {row.ratio:.2f}{reach}"
    )


def _workspace(folder: Path, steps: str, items: int) -> Path:
    """A workspace with one recipe that loops; its items come from a file."""
    agents = folder / ".orchestrate" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "helper.md").write_text(AGENT, "utf-8")
    recipe = folder / "r.yaml"
    recipe.write_text(
        "name: loop\ndescription: A loop\nversion: 1.0.0\n"
        f"context: {{items: {json.dumps(list(range(items)))}}}\n"
        f"recursion: {{max_total_steps: 1000}}\n{steps}",
        "utf-8",
    )
    return recipe


# Many at once.


def fan_out(items: int, at_once: int, sleep_s: float) -> list[Row]:
    """The wall time of a parallel loop, beside the ideal and beside bare threads."""
    ideal = math.ceil(items / at_once) * sleep_s
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as name:
        folder = Path(name).resolve()
        loop = (
            'steps: [{id: each, foreach: "{{items}}", max_iterations: 1000, parallel: true, '
            'agent: helper, prompt: "Item {{item}}", collect: all}]\n'
        )
        _workspace(folder, loop, items)
        agent = folder / "claude"
        agent.write_text(_SLEEPER.format(sleep_s=sleep_s, answer=shlex.quote(_ANSWER)), "utf-8")
        agent.chmod(0o755)
        bare = _bare_threads(agent, items, at_once)
        words = [sys.executable, "-m", "orchestrate", "run", "r.yaml", "--quiet"]
        env = {**os.environ, "CLAUDE_CLI_PATH": str(agent), "PYTHONPATH": str(REPOSITORY)}
        began = time.perf_counter()
        subprocess.run(
            [*words, "--max-parallel", str(at_once)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        wall = time.perf_counter() - began
    title = f"{items} items, {at_once} at once"
    return [
        Row(title, wall, "ideal", ideal, "s", _FAN_OUT_REACH),
        Row(title, wall, "the same by bare threads", bare, "s"),
    ]


def _bare_threads(agent: Path, items: int, at_once: int) -> float:
    def ask(number: int) -> None:
        prompt = f"Item {number}".encode()
        subprocess.run([str(agent)], input=prompt, stdout=subprocess.DEVNULL, check=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(ask, range(items)))
    return time.perf_counter() - began


# One after another.


def sequence(few: int, many: int) -> list[Row]:
    """What an item costs in a long loop and in a short one, in turns, less an empty loop's cost."""
    rounds = 3
    costs: dict[int, list[tuple[float, float]]] = {0: [], few: [], many: []}
    peak = 0.0
    with tempfile.TemporaryDirectory(prefix="orchestrate-bench-") as name:
        for turn in range(rounds):
            for count in (0, few) * 4 + (many,):
                folder = Path(name).resolve() / f"{turn}-{count}-{time.monotonic_ns()}"
                folder.mkdir()
                sample = _sample(folder, count)
                costs[count].append((sample["wall_s"], sample["cpu_s"]))
                peak = max(peak, sample["peak_mb"])
    rows = []
    for place, kind in enumerate(("wall", "processor")):
        least = {count: min(sample[place] for sample in taken) for count, taken in costs.items()}
        per_item = {count: (least[count] - least[0]) / count * 1000 for count in (few, many)}
        rows.append(
            Row(
                f"an item of {many}, {kind}",
                per_item[many],
                f"an item of {few}",
                per_item[few],
                "ms",
                _SEQUENCE_REACH,
            )
        )
    rows.append(Row(f"memory after {many} items", peak, "reach", 60.0, "MB", 1.0))
    return rows


def _sample(folder: Path, items: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--sequence", str(items)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def run_sequence(folder: Path, items: int) -> int:
    """In a process of its own: run the loop, and print what that took."""
    loop = (
        'steps: [{id: each, foreach: "{{items}}", max_iterations: 1000000, agent: helper, '
        'prompt: "Item {{item}}", collect: all}]\n'
    )
    recipe = _workspace(folder, loop, items)
    workspace = open_workspace(folder)
    compilation = compile_file(recipe, workspace)
    program = require_program(compilation)
    plans = tuple(
        replace(plan, limits=replace(plan.limits, max_steps=None)) for plan in program.plans
    )
    program = replace(program, plans=plans)
    settings = RunSettings(backend="rehearsal")
    runs, reporter = open_runs(folder, None), CommandLine(DisplayOptions(quiet=True))
    store = start_run(runs, program, compilation, workspace, settings, reporter)
    cpu, wall = time.process_time(), time.perf_counter()
    with stoppable() as stop:
        ending = carry_out(store, program, workspace, settings, reporter, stop)
    taken = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    store.close()
    if ending.status != "completed":
        raise RuntimeError(f"the loop ended as {ending.status}: {ending.reason}")
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
