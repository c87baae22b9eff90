"""An agent resolves what spread items have changed differently (fleet.md, `spread`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.machines import LIMIT_S, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

# The provider is a program that writes down what it was told, and what it was shown.
RESOLVE = """
version: "1.4"
name: resolve
providers:
  merger:
    command:
      - sh
      - -c
      - |
        echo "resolver begins" >> $LEDGER
        cat same.txt > $LEDGER.shown
        echo "$1" > $LEDGER.told
        {work}
        echo "resolver ends" >> $LEDGER
      - merger
      - ${{PROMPT}}
steps:
  - name: Each
    for_each:
      items: [a, b, c]
      parallel: true
      spread:
        pool: {pool}
        resolve: {{agent: merger, prompt: "Merge {{{{conflicts}}}} now"}}
      steps:
        - name: Make
          command:
            - sh
            - -c
            - echo "begin $1" >> $LEDGER; echo "$1" | tee same.txt > "$1.txt"
            - make
            - ${{item}}
  - name: After
    command: [sh, -c, 'cat same.txt; echo after >> $LEDGER']
    output_capture: text
"""
MERGES = 'printf "a b c" > same.txt'


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"README": "here\n", "same.txt": "first\n"})
    yield made
    made.close()


def write(fleet: ServerFleet, work: str) -> None:
    (fleet.folder / "resolve.yaml").write_text(RESOLVE.format(pool=fleet.pool, work=work))
    fleet.git("add", "-A")
    fleet.git("commit", "-q", "-m", "resolve")


def kept(fleet: ServerFleet, name: str) -> str:
    return fleet.ledger.with_name(f"ledger.{name}").read_text()


def test_fleet_an_agent_resolves_conflicts_in_the_merged_files(fleet: ServerFleet) -> None:
    write(fleet, MERGES)
    fleet.worker("one", slots=3)
    run = fleet.begin("resolve.yaml")
    fleet.wait(run).assert_success()
    # It saw what all three had made, and its prompt named the file.
    shown = kept(fleet, "shown").splitlines()
    assert {"a", "b", "c"} <= {*shown}
    assert any(line.startswith("<<<<<<< ") for line in shown)
    assert kept(fleet, "told") == "Merge same.txt now\n"
    assert fleet.entries()[-3:] == ["resolver begins", "resolver ends", "after"]
    fleet.run("fetch", run).assert_success()
    assert fleet.git("show", f"orchestrate/{run}:same.txt") == "a b c"
    assert fleet.git("show", f"orchestrate/{run}:c.txt") == "c"
    state = json.loads((fleet.folder / ".orchestrate/runs" / run / "state.json").read_text())
    assert state["steps"]["Each:resolve"]["status"] == "completed"
    assert state["steps"]["After"]["output"] == "a b c"


def test_fleet_a_resolver_is_killed_goes_on_fails_and_is_asked_again(fleet: ServerFleet) -> None:
    waits = "until test -e $GO; do sleep 0.1; done"
    write(fleet, f"{waits}; if test -e $GO.merge; then {MERGES}; fi")
    worker = fleet.worker("one", slots=3)
    run = fleet.begin("resolve.yaml")
    until(lambda: "resolver begins" in fleet.entries())
    worker.kill()
    fleet.allow()
    worker.start()
    fleet.wait(run).assert_exit(1)
    assert "conflict markers are left in same.txt" in fleet.run("status", run).stdout
    assert fleet.entries().count("resolver begins") == 1
    assert "after" not in fleet.entries()
    (fleet.top / "go.merge").write_text("")
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries().count("resolver begins") == 2
    # The items are not begun again.
    assert sum(entry.startswith("begin ") for entry in fleet.entries()) == 3
    assert fleet.entries()[-1] == "after"
