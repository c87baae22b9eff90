"""Measures how long an event of a run takes to the page of the console while ten runs are at work.

    python benchmarks/console.py [--quick] [--json] [--check]

A real `orchestrate serve`, a real Chromium, and loops of short commands. The page notes when it
first shows each event of one of the runs; the journal has the moment at which it happened.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from orchestrate.testing import Project  # noqa: E402  needs the path
from tests.serve.browser import Page, chromium, program  # noqa: E402

RUNS = 10
REACH_MS = 300.0
_BUSY = """\
version: "1.4"
name: busy
steps:
  - name: Loop
    for_each:
      items: [{items}]
      steps:
        - {{name: Work, command: [sleep, "0.4"]}}
"""
# The tab says how many events there are: when each number was first seen, by the page's clock.
_WATCH = """
window.seen = [];
new MutationObserver(() => {
  const found = /(\\d+) events/.exec(document.querySelector('#app').innerText);
  if (found) window.seen.push([Number(found[1]), Date.now()]);
}).observe(document.querySelector('#app'), {subtree: true, childList: true, characterData: true});
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/console.py", description=__doc__)
    for flag in ("--quick", "--json", "--check"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args(arguments)
    if program() is None:
        print("Chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return 1
    late = measure(20 if options.quick else 60)
    median, slowest = statistics.median(late), statistics.quantiles(late, n=20)[-1]
    if options.json:
        figures = {"events": len(late), "median_ms": median, "p95_ms": slowest, "runs": RUNS}
        print(json.dumps({**figures, "reach_ms": REACH_MS}, indent=2))
    else:
        print(f"an event to the page, {RUNS} runs at work ({len(late)} events)")
        print(
            f"  median {median:.0f} ms, 95 % within {slowest:.0f} ms; to reach: {REACH_MS:.0f} ms"
        )
    return 1 if options.check and median > REACH_MS else 0


def measure(items: int) -> list[float]:
    """Milliseconds from each event to the page."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orchestrate-bench-")))
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ[name] = str(base / name)
        project = Project(base / "work", {".orchestrate/config.yaml": ""})
        project.write("busy.yaml", _BUSY.format(items=", ".join(map(str, range(items)))))
        server = stack.enter_context(project.background("serve", "--port", "0"))
        stack.callback(server.terminate)
        address, link = _link_of(server)
        page = stack.enter_context(stack.enter_context(chromium()).page())
        page.open(f"{address}#k={link}")
        page.until("location.pathname === '/runs' && document.querySelector('#app h1')", 60)
        runs = [project.spawn("run", "busy.yaml", "-d").stdout.strip() for _ in range(RUNS)]
        return _late(page, project, f"{address}runs/{runs[-1]}/events", runs)


def _link_of(server: subprocess.Popen[str]) -> tuple[str, str]:
    assert server.stderr is not None
    for line in server.stderr:
        if "open:" in line:
            address, _, link = line.split()[1].partition("#k=")
            return address, link
    raise AssertionError("the server did not start")


def _late(page: Page, project: Project, url: str, runs: Sequence[str]) -> list[float]:
    page.open(url)
    page.until("document.querySelector('ol.events')", 60)
    page.run(_WATCH)
    for run in runs:
        project.spawn("wait", run).assert_success()
    journal = project.folder / ".orchestrate/runs" / runs[-1] / "events.jsonl"
    events = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    page.until(f"window.seen.at(-1)?.[0] >= {events[-1]['seq']}", 60)
    seen: list[list[float]] = page.run("window.seen")
    late = []
    for event in events:
        at = event["event"].get("at")
        shown = next(moment for count, moment in seen if count >= event["seq"])
        # What was there before the page looked says nothing.
        if at is not None and at * 1000 > seen[0][1]:
            late.append(shown - at * 1000)
    return late


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
