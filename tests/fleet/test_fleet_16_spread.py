"""Loops and calls whose items other machines take (fleet.md, `spread`): each once, merged in order.

The ledger is the judge: each item appends a line to it when it begins, and one when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.machines import HASTY, LARGE_LIMIT_S, LIMIT_S, Handle, ServerFleet, Worker, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

ITEMS = """
version: "1.4"
name: items
context: {{word: made}}
steps:
  - name: Before
    command: ["sh", "-c", "echo before > before.txt; echo first"]
    output_capture: text
  - name: Each
    for_each:
      items: {items}
      parallel: {parallel}
      spread: {pool}
      steps:
        - name: Make
          command:
            - sh
            - -c
            - |
              echo "begin $1 $FLEET_TEST_MACHINE" >> $LEDGER
              {script}
              echo "end $1" >> $LEDGER
              echo "$1 $2"
            - make
            - ${{item}}
            - ${{steps.Before.output}}
          output_capture: text
  - name: After
    command: ["sh", "-c", "cat *.txt; echo after >> $LEDGER"]
    output_capture: text
"""


def items_file(pool: str, script: str, *, count: int = 4, parallel: str = "true") -> str:
    items = [f"i{number:02}" for number in range(count)]
    return ITEMS.format(items=items, pool=pool, parallel=parallel, script=script)


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"README": "here\n"})
    yield made
    made.close()


def write(fleet: ServerFleet, name: str, text: str) -> None:
    (fleet.folder / name).write_text(text)
    fleet.git("add", "-A")
    fleet.git("commit", "-q", "-m", name)


# Goes on once two machines have begun an item.
MACHINES = 'grep ^begin $LEDGER | cut -d" " -f3 | sort -u | wc -l'
BOTH = f'until test "$({MACHINES})" -ge 2; do sleep 0.1; done'
WAITS = "until test -e $GO; do sleep 0.1; done"


def begun(fleet: ServerFleet) -> list[str]:
    """The items, in the order of their names, as often as they were begun."""
    return sorted(entry.split()[1] for entry in fleet.entries() if entry.startswith("begin "))


def is_alone(worker: Worker) -> bool:
    """Has nothing of what it has begun been left?"""
    return worker.process is not None and [*worker.alive()] == [worker.process.pid]


def names(count: int) -> list[str]:
    return [f"i{number:02}" for number in range(count)]


def test_fleet_sixteen_items_on_two_workers_are_done_once_each(fleet: ServerFleet) -> None:
    script = f"{BOTH}; test -e before.txt; echo $1 > $1.txt"
    write(fleet, "items.yaml", items_file(fleet.pool, script, count=16))
    fleet.worker("one", slots=4)
    fleet.worker("two", slots=4)
    run = fleet.begin("items.yaml")
    fleet.wait(run).assert_success()
    assert begun(fleet) == names(16)
    assert fleet.entries()[-1] == "after"
    state = json.loads((fetched(fleet, run) / "state.json").read_text())
    results = state["steps"]["Each"]
    assert [one["Make"]["output"].strip() for one in results] == [f"{n} first" for n in names(16)]
    assert state["steps"]["After"]["output"].split() == ["before", *names(16)]
    assert fleet.git("show", f"orchestrate/{run}:i03.txt") == "i03"
    # However many items there are: the run is one workflow, and it had one sitting.
    assert len(fleet.history(run)) <= 30
    assert run in fleet.run("runs", "--fleet").assert_success().stdout
    assert "Each[" not in fleet.run("runs", "--fleet").stdout


@pytest.mark.soak
def test_fleet_a_thousand_items_are_as_short_a_history_and_no_large_payload(
    fleet: ServerFleet,
) -> None:
    write(fleet, "items.yaml", items_file(fleet.pool, ":", count=1000, parallel="32"))
    for name in ("one", "two"):
        fleet.worker(name, slots=8)
    run = fleet.begin("items.yaml", "--max-parallel", "16")
    fleet.wait(run, LARGE_LIMIT_S).assert_success()
    assert begun(fleet) == sorted(names(1000))

    async def sizes(handle: Handle) -> list[int]:
        return [event.ByteSize() for event in (await handle.fetch_history()).events]

    found = fleet.on_server(sizes, run)
    assert len(found) <= 30
    assert max(found) <= 256_000


def fetched(fleet: ServerFleet, run: str) -> Path:
    fleet.run("fetch", run).assert_success()
    return fleet.folder / ".orchestrate" / "runs" / run


def test_fleet_a_run_that_only_waits_for_items_holds_no_slot(fleet: ServerFleet) -> None:
    write(fleet, "items.yaml", items_file(fleet.pool, "echo $1 > $1.txt", count=3))
    fleet.worker("one", slots=1)
    fleet.send("items.yaml").assert_success()
    assert begun(fleet) == names(3)


def test_fleet_conflicting_items_fail_the_step_and_are_kept(fleet: ServerFleet) -> None:
    script = "echo $1 > $1.txt; echo $1 > same.txt"
    write(fleet, "items.yaml", items_file(fleet.pool, script, count=3))
    fleet.worker("one", slots=4)
    run = fleet.begin("items.yaml")
    fleet.wait(run).assert_exit(1)
    assert "after" not in fleet.entries()
    told = fleet.run("status", run).stdout
    assert "conflicting changes of same.txt" in told
    refs = fleet.git("ls-remote", str(fleet.top / "remote.git"))
    for number in range(3):
        assert f"refs/orchestrate/{run}/items/Each%5B{number}%5D/work" in refs
    # Nothing was taken of what could not be merged as a whole.
    published = fleet.git("ls-tree", "--name-only", published_work(fleet, run))
    assert "before.txt" in published
    assert "i00.txt" not in published


def published_work(fleet: ServerFleet, run: str) -> str:
    fleet.git("fetch", "-q", str(fleet.top / "remote.git"), f"refs/orchestrate/{run}/work")
    return fleet.git("rev-parse", "FETCH_HEAD")


def test_fleet_a_worker_that_is_killed_and_started_again_repeats_no_item(
    fleet: ServerFleet,
) -> None:
    write(fleet, "items.yaml", items_file(fleet.pool, f"{WAITS}; echo $1 > $1.txt"))
    worker = fleet.worker("one", slots=3)
    run = fleet.begin("items.yaml")
    until(lambda: len(begun(fleet)) == 3)
    worker.kill()
    fleet.allow()
    worker.start()
    fleet.wait(run).assert_success()
    assert begun(fleet) == names(4)
    assert fleet.entries()[-1] == "after"


def test_fleet_a_run_whose_machine_is_lost_goes_on_with_its_items(fleet: ServerFleet) -> None:
    """The items are elsewhere, and go on meanwhile."""
    fleet.timing(HASTY)
    write(
        fleet,
        "items.yaml",
        items_file(f"others-{fleet.pool}", f"{WAITS}; echo $1 > $1.txt", count=2),
    )
    first = fleet.worker("one", slots=1)
    fleet.worker("other", slots=2, pool=f"others-{fleet.pool}")
    run = fleet.begin("items.yaml")
    until(lambda: len(begun(fleet)) == 2)
    first.vanish()
    fleet.worker("two", slots=1)
    fleet.allow()
    fleet.wait(run).assert_success()
    assert begun(fleet) == names(2)
    assert fleet.entries()[-1] == "after"


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_fleet_who_ends_a_run_ends_its_items(fleet: ServerFleet, how: str) -> None:
    write(fleet, "items.yaml", items_file(fleet.pool, WAITS, count=2))
    worker = fleet.worker("one", slots=2)
    run = fleet.begin("items.yaml")
    until(lambda: len(begun(fleet)) == 2)
    fleet.run(how, run, timeout_s=LIMIT_S).assert_success()
    # Nothing is left but the worker itself.
    until(lambda: is_alone(worker))
    if how == "cancel":
        assert fleet.run("status", run, "--json").json()["status"] == "cancelled"
        return
    fleet.allow()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert begun(fleet) == sorted(names(2) * 2)
    assert fleet.entries()[-1] == "after"


def test_fleet_an_item_that_fails_ends_the_others_until_the_run_is_resumed(
    fleet: ServerFleet,
) -> None:
    script = f"if test $1 = i01; then test -e $GO; fi; {WAITS}; echo $1 > $1.txt"
    write(fleet, "items.yaml", items_file(fleet.pool, f"set -e; {script}", count=3))
    worker = fleet.worker("one", slots=3)
    run = fleet.begin("items.yaml")
    fleet.wait(run).assert_exit(1)
    until(lambda: is_alone(worker))
    assert "after" not in fleet.entries()
    fleet.allow()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert [entry for entry in fleet.entries() if entry.startswith("end")] != []
    assert fleet.entries()[-1] == "after"
    assert fleet.git("ls-tree", "--name-only", published_work(fleet, run)).count("i0") == 3


CALLER = """
id: caller
label: C
description: d
initialStep: call
steps:
  call:
    call: parts/called.yaml
    with: {{word: hello}}
    spread: {pool}
    onOutcome:
      completed: {{nextStep: after}}
      failed: {{action: exit, reason: broken, status: failed}}
  after:
    command: cat made.txt; echo "after {{{{steps.call.outputs.said}}}}" >> $LEDGER
    onOutcome:
      passed: {{action: exit, reason: done}}
      failed: {{action: exit, reason: broken, status: failed}}
"""
CALLED = """
version: "1.4"
name: called
inputs:
  word: {type: string}
outputs:
  said: ${steps.Make.output}
steps:
  - name: Ask
    approval: {prompt: "Go on?"}
  - name: Make
    command:
      - sh
      - -c
      - echo begin $1 x >> $LEDGER; echo made > made.txt; printf "%s there" $1
      - make
      - ${inputs.word}
    output_capture: text
"""


def test_fleet_a_call_is_taken_by_another_machine_and_its_gate_is_the_runs(
    fleet: ServerFleet,
) -> None:
    (fleet.folder / "parts").mkdir()
    (fleet.folder / "parts" / "called.yaml").write_text(CALLED)
    write(fleet, "caller.yaml", CALLER.format(pool=fleet.pool))
    fleet.worker("one", slots=1)
    run = fleet.begin("caller.yaml")
    fleet.wait(run).assert_exit(6)
    assert begun(fleet) == []
    fleet.run("approve", run, timeout_s=LIMIT_S).assert_success()
    fleet.wait(run).assert_success()
    assert begun(fleet) == ["hello"]
    assert fleet.entries()[-1] == "after hello there"
