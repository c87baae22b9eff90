"""What one more step costs in orchestrate and in other tools, measured in one run.

    .venv/bin/python benchmarks/peers.py [--steps 300] [--rounds 5] [--write]

Each tool runs a line of no-op programs, short and long in turns with `subprocess.run` of the same;
the difference is the steps' own cost. Tools that are not on PATH, or not in the environment that
`make bench-peers` makes, are left out. With `--write` the table goes into the documentation.
Processor time and switches are those of all processes, the run's keeper too; syncs are counted by
strace in a run of its own. Real-time priority is taken where that is allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "explanation" / "what-a-step-costs.md"
BEGIN, END = "<!-- written by `make bench-peers` -->", "<!-- end -->"
PROGRAM = "/bin/true"
PEERS = REPOSITORY / ".venv-peers" / "bin"
_FEW = 20

# Waits for all descendants: what was detached on the way, as our keeper, comes to it.
_LAUNCHER = """\
import ctypes, os, resource, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
began = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
code, wall = 1, 0.0
while True:
    try:
        pid, status = os.wait()
    except ChildProcessError:
        break
    if pid == child:
        code, wall = os.waitstatus_to_exitcode(status), time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, wall, used.ru_utime + used.ru_stime, used.ru_nvcsw + used.ru_nivcsw)
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """`prepare` writes a line of so many steps into a folder and gives the command for it."""

    name: str
    durable: str
    prepare: Callable[[Path, int], list[str]]


# Seconds, processor seconds of all processes, and switches of one whole run.
Taken = tuple[float, float, float]


@dataclass(slots=True)
class Cost:
    """What was measured, a figure a round: of short lines, of long ones, of the bare program."""

    shorts: list[Taken] = field(default_factory=list)
    longs: list[Taken] = field(default_factory=list)
    bare_s: list[float] = field(default_factory=list)
    syncs: float | None = None

    def of_step(self, figure: int, steps: int) -> float:
        """By the medians: the start of a tool may take longer once than all of its steps."""
        short, long = (statistics.median(t[figure] for t in ts) for ts in (self.shorts, self.longs))
        return (long - short) / steps

    def ratio(self, steps: int) -> float:
        return self.of_step(0, steps) / statistics.median(self.bare_s)


def _ours(shape: Callable[[int], list[object]]) -> Callable[[Path, int], list[str]]:
    def prepare(folder: Path, steps: int) -> list[str]:
        document = {"version": "1.1", "name": "bench", "steps": shape(steps)}
        (folder / "w.yaml").write_text(json.dumps(document))
        return [sys.executable, "-m", "orchestrate", "run", "w.yaml", "--quiet"]

    return prepare


def _loop(steps: int) -> list[object]:
    step = {"name": "Do", "command": [PROGRAM]}
    return [{"name": "Loop", "for_each": {"items": list(range(steps)), "steps": [step]}}]


def _line(steps: int) -> list[object]:
    return [{"name": f"S{number}", "command": [PROGRAM]} for number in range(steps)]


def _bash(folder: Path, steps: int) -> list[str]:  # noqa: ARG001
    return ["bash", "-c", f"for i in $(seq {steps}); do {PROGRAM}; done"]


def _make(folder: Path, steps: int) -> list[str]:
    targets = " ".join(f"t{number}" for number in range(steps))
    (folder / "Makefile").write_text(f"all: {targets}\n{targets}:\n\t@{PROGRAM}\n")
    return ["make", "-s", "all"]


def _just(folder: Path, steps: int) -> list[str]:
    recipes = "".join(f"t{number}:\n    @{PROGRAM}\n" for number in range(steps))
    names = " ".join(f"t{number}" for number in range(steps))
    (folder / "justfile").write_text(f"all: {names}\n{recipes}")
    return ["just", "all"]


def _go_task(folder: Path, steps: int) -> list[str]:
    document = {"version": "3", "tasks": {"all": {"cmds": [PROGRAM] * steps, "silent": True}}}
    (folder / "Taskfile.yml").write_text(json.dumps(document))
    return ["task", "all"]


def _doit(folder: Path, steps: int) -> list[str]:
    (folder / "dodo.py").write_text(
        f"def task_t():\n    for n in range({steps}):\n"
        f"        yield {{'name': str(n), 'actions': [['{PROGRAM}']]}}\n"
    )
    return ["doit"]


def _pypyr(folder: Path, steps: int) -> list[str]:
    step = {"name": "pypyr.steps.cmd", "in": {"cmd": PROGRAM}}
    (folder / "p.yaml").write_text(json.dumps({"steps": [step] * steps}))
    return ["pypyr", "p"]


_LANGGRAPH = """\
import subprocess, sys
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
class State(TypedDict):
    n: int
def do(state):
    subprocess.run([{program!r}], check=True)
    return {{"n": state["n"] + 1}}
graph = StateGraph(State)
graph.add_node("do", do)
graph.add_edge(START, "do")
graph.add_conditional_edges("do", lambda s: "do" if s["n"] < {steps} else END)
with SqliteSaver.from_conn_string("c.sqlite") as saver:
    config = {{"configurable": {{"thread_id": "1"}}, "recursion_limit": 100000}}
    ready = graph.compile(checkpointer=saver)
    take_time(lambda: ready.invoke({{"n": 0}}, config))
"""
_DBOS = """\
import subprocess
from dbos import DBOS
DBOS(config={{"name": "bench", "system_database_url": "sqlite:///d.sqlite"}})
@DBOS.step()
def do():
    subprocess.run([{program!r}], check=True)
@DBOS.workflow()
def line():
    for _ in range({steps}):
        do()
DBOS.launch()
take_time(line)
DBOS.destroy()
"""
_LUIGI = """\
import subprocess
import luigi
class Step(luigi.Task):
    n = luigi.IntParameter()
    def requires(self):
        return [Step(n=self.n - 1)] if self.n else []
    def output(self):
        return luigi.LocalTarget(f"out/{{self.n}}")
    def run(self):
        subprocess.run([{program!r}], check=True)
        with self.output().open("w") as file:
            file.write("done")
import sys
sys.setrecursionlimit(100000)
last = [Step(n={steps} - 1)]
take_time(lambda: luigi.build(last, local_scheduler=True, log_level="ERROR"))
"""


# Their start takes seconds, and their end waits for threads: they time the steps themselves.
_TAKE_TIME = """\
import time
def take_time(work):
    began = time.perf_counter()
    work()
    with open("took", "w") as file:
        file.write(str(time.perf_counter() - began))
"""


def _python(source: str) -> Callable[[Path, int], list[str]]:
    def prepare(folder: Path, steps: int) -> list[str]:
        text = _TAKE_TIME + source.format(program=PROGRAM, steps=steps)
        (folder / "bench.py").write_text(text)
        return [str(PEERS / "python"), "bench.py"]

    return prepare


TOOLS = (
    Tool("orchestrate, a loop", "claim, exit and result", _ours(_loop)),
    Tool("orchestrate, a line of steps", "claim, exit and result", _ours(_line)),
    Tool("bash", "no", _bash),
    Tool("make", "no", _make),
    Tool("just", "no", _just),
    Tool("go-task", "no", _go_task),
    Tool("pypyr", "no", _pypyr),
    Tool("doit", "at the end", _doit),
    Tool("langgraph + sqlite", "result", _python(_LANGGRAPH)),
    Tool("dbos + sqlite", "result", _python(_DBOS)),
    Tool("luigi", "a marker file, not synced", _python(_LUIGI)),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args()
    # Without byte code, or with every write flushed, Python would be what is measured.
    for name in [name for name in os.environ if name.startswith(("PYTHON", "COVERAGE"))]:
        del os.environ[name]
    os.environ["PATH"] = f"{PEERS}{os.pathsep}{os.environ['PATH']}"
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    with tempfile.TemporaryDirectory(prefix="orchestrate-peers-") as name:
        costs = measure(Path(name), options.steps, options.rounds)
    table = "\n".join(rows_of(costs, options.steps, options.rounds))
    print(table)
    if options.write:
        page = PAGE.read_text("utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", "utf-8")
    return 0


def measure(folder: Path, steps: int, rounds: int) -> dict[str, Cost]:
    """Every tool that is there, each in its turn in every round."""
    costs: dict[str, Cost] = {}
    usable = [tool for tool in TOOLS if _works(folder, tool)]
    for _ in range(rounds):
        for tool in usable:
            cost = costs.setdefault(tool.name, Cost())
            cost.shorts.append(take(folder, tool, _FEW))
            cost.bare_s.append(_bare_s(steps // 2))
            cost.longs.append(take(folder, tool, _FEW + steps))
            cost.bare_s.append(_bare_s(steps // 2))
    if shutil.which("strace"):
        for tool in usable:
            syncs = [_count_syncs(folder, tool, number) for number in (_FEW, 3 * _FEW)]
            costs[tool.name].syncs = (syncs[1] - syncs[0]) / (2 * _FEW)
    return costs


def _works(folder: Path, tool: Tool) -> bool:
    try:
        take(folder, tool, 2)
    except (RuntimeError, OSError) as error:
        print(f"{tool.name} is left out: {error}", file=sys.stderr)
        return False
    return True


def take(folder: Path, tool: Tool, steps: int) -> Taken:
    """Run a tool once."""
    place = _fresh(folder)
    command = tool.prepare(place, steps)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    words = done.stdout.split()
    if len(words) != 4 or words[0] != "0":
        raise RuntimeError(done.stderr.strip()[-200:] or f"it ended with {words[:1]}")
    took = place / "took"
    wall = float(took.read_text()) if took.exists() else float(words[1])
    return wall, float(words[2]), float(words[3])


def _fresh(folder: Path) -> Path:
    place = folder / "place"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def _bare_s(steps: int) -> float:
    began = time.perf_counter()
    for _ in range(steps):
        subprocess.run([PROGRAM], check=True)
    return (time.perf_counter() - began) / steps


def _count_syncs(folder: Path, tool: Tool, steps: int) -> int:
    place = _fresh(folder)
    command = tool.prepare(place, steps)
    calls = folder / "calls"
    # The filter of the kernel lets all other calls pass at their usual pace: some syncs go by time.
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(calls)]
    traced = [*strace, "-e", "trace=fsync,fdatasync", *command]
    subprocess.run(traced, cwd=place, capture_output=True, check=False)
    return len(re.findall(r"\b(?:fsync|fdatasync)\(", calls.read_text("utf-8", "replace")))


def rows_of(costs: dict[str, Cost], steps: int, rounds: int) -> list[str]:
    durable = {tool.name: tool.durable for tool in TOOLS}
    rows = [
        "| tool | times `subprocess.run` | CPU ms | syncs | switches | on record after each step |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, cost in sorted(costs.items(), key=lambda pair: pair[1].ratio(steps)):
        syncs = "?" if cost.syncs is None else f"{cost.syncs:.1f}"
        rows.append(
            f"| {name} | {cost.ratio(steps):.2f} | {1000 * cost.of_step(1, steps):.2f} | {syncs} | "
            f"{cost.of_step(2, steps):.0f} | {durable[name]} |"
        )
    machine = f"Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores"
    return [*rows, "", f"Medians of {rounds} rounds of {steps} steps; {machine}."]


if __name__ == "__main__":
    sys.exit(main())
