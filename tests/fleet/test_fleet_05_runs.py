"""Runs on a real server and real workers (fleet.md): begun once, parked, decided, stopped, ended.

The ledger is the judge: each command appends a line to it when it begins.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrate.errors import ConfigError
from orchestrate.fleet.protocol import DECIDE, Decision
from orchestrate.fleet.worker import Machine, _be_first
from tests.fleet.machines import HASTY, LIMIT_S, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

RECIPE = """
name: r
description: d
version: "1.0.0"
steps:
  - id: make
    type: bash
    command: echo recipe >> $LEDGER; echo made > made.txt
"""
MACHINE = """
id: m
label: M
description: d
initialStep: make
steps:
  make:
    command: echo machine >> $LEDGER; echo made > made.txt
    onOutcome:
      passed: {action: exit, reason: done}
      failed: {action: exit, reason: broken, status: failed}
"""
GATE = """
version: "1.4"
name: gate
steps:
  - name: Make
    command: ["sh", "-c", "echo before >> $LEDGER; echo made > made.txt"]
  - name: Ask
    approval: {prompt: "Go on?"}
  - name: Then
    command: ["sh", "-c", "echo after >> $LEDGER; cat made.txt"]
"""
# Goes on once it is allowed to.
LONG = """
version: "1.4"
name: long
steps:
  - name: First
    command: ["sh", "-c", "echo first >> $LEDGER"]
  - name: Long
    command: ["sh", "-c", "echo long >> $LEDGER; until test -e $GO; do sleep 0.1; done"]
  - name: Last
    command: ["sh", "-c", "echo last >> $LEDGER"]
"""
# Goes on behind its gate, but not to its end.
WAITS = GATE.replace("cat made.txt", "until test -e $GO; do sleep 0.1; done")
FAILS = """
version: "1.1"
name: fails
steps:
  - name: Try
    command: ["sh", "-c", "echo try >> $LEDGER; test -e $GO"]
"""


DEAF = """
version: "1.4"
name: deaf
steps:
  - name: Deaf
    command: ["sh", "deaf.sh"]
"""
DEAF_SCRIPT = """
trap "" TERM
echo $$ >> $LEDGER
sh -c 'trap "" TERM; echo $$ >> $LEDGER; while :; do sleep 1; done' &
setsid sh -c 'trap "" TERM; echo $$ >> $LEDGER; while :; do sleep 1; done' &
while :; do sleep 1; done
"""
_BUSY_S = 20


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    files = {"r.yaml": RECIPE, "m.yaml": MACHINE, "gate.yaml": GATE, "long.yaml": LONG,
             "fails.yaml": FAILS, "waits.yaml": WAITS, "deaf.yaml": DEAF,
             "deaf.sh": DEAF_SCRIPT}  # fmt: skip
    made = ServerFleet(tmp_path, temporal_server, files)
    yield made
    made.close()


def test_fleet_every_dialect_runs_to_its_end_and_comes_back(fleet: ServerFleet) -> None:
    fleet.worker("one")
    for file, entry in (("r.yaml", "recipe"), ("m.yaml", "machine")):
        sent = fleet.send(file).assert_success()
        run = sent.stderr.split()[1]
        assert sent.stderr.startswith(f"run {run} starts {file} on pool {fleet.pool}\n")
        assert fleet.entries().count(entry) == 1
        assert fleet.run("status", run, "--json").assert_success().json()["status"] == "completed"
        assert len(fleet.history(run)) <= 20
        found = fleet.run("fetch", run, "--json").assert_success().json()
        assert (found["status"], found["is_here"]) == ("completed", True)
        assert fleet.git("show", f"orchestrate/{run}:made.txt") == "made"
        assert not (fleet.folder / "made.txt").exists()
    assert list((fleet.workers[0].root / "seats").iterdir()) == []


def test_fleet_a_gate_holds_no_machine_and_is_decided_once(fleet: ServerFleet) -> None:
    fleet.worker("one", slots=1)
    sent = fleet.send("gate.yaml").assert_exit(6)
    run = sent.stderr.split()[1]
    assert fleet.pending(run) == 0
    assert fleet.run("runs", "--json").json()["runs"][0]["status"] == "paused"
    # Its slot serves another run.
    fleet.send("r.yaml").assert_success()
    fleet.run("approve", run, "-m", "fine").assert_success()
    again = fleet.run("approve", run).assert_exit(2)
    assert "was approved already, by tester" in again.stderr
    fleet.wait(run).assert_success()
    assert fleet.run("logs", run, "Then").assert_success().stdout == "made\n"
    assert fleet.entries() == ["before", "recipe", "after"]
    page = fleet.run("report", run, "-o", "page.md").assert_success()
    assert page.stdout == ""
    assert run in (fleet.folder / "page.md").read_text()


def test_fleet_a_decision_that_the_server_did_not_hear_is_told_again(
    fleet: ServerFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.worker("one")
    run = fleet.send("gate.yaml").assert_exit(6).stderr.split()[1]

    async def fail(*_: object) -> None:
        raise ConfigError("the server is gone")

    with monkeypatch.context() as cut:
        cut.setattr("orchestrate.fleet.server_run.ServerRun.decide", fail)
        assert "the server is gone" in fleet.run("approve", run).assert_exit(5).stderr
    assert fleet.run("approve", run).assert_exit(2).stderr.endswith(f"run {run} goes on\n")
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["before", "after"]


def test_fleet_a_decision_that_comes_too_late_is_told_so(
    fleet: ServerFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two who decide at once, in clones of their own, the second one has not."""
    fleet.worker("one")
    run = fleet.send("waits.yaml", "--yes").assert_exit(6).stderr.split()[1]
    first = Decision("", "Ask", 1, "approved", "other")
    with monkeypatch.context() as stale:
        stale.setattr("orchestrate.fleet.shadow.Shadow.refresh", lambda _: True)
        fleet.on_server(lambda handle: handle.signal(DECIDE, first), run)
        late = fleet.run("deny", run).assert_exit(2)
    assert "'Ask' was approved already, by other" in late.stderr
    fleet.allow()
    fleet.wait(run).assert_success()


def test_fleet_a_denial_ends_the_run_for_good(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.send("gate.yaml").assert_exit(6).stderr.split()[1]
    fleet.run("deny", run).assert_success()
    fleet.wait(run).assert_exit(1)
    assert fleet.history(run)[-1] == "EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED"
    assert fleet.entries() == ["before"]


def test_fleet_what_failed_waits_for_resume(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.send("fails.yaml").assert_exit(1).stderr.split()[1]
    assert fleet.run("status", run, "--json").json()["status"] == "failed"
    assert fleet.pending(run) == 0
    fleet.allow()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["try", "try"]


def test_fleet_stop_and_resume_and_cancel(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = fleet.begin("long.yaml")
    fleet.await_entry("long")
    stopped = fleet.run("stop", run, timeout_s=LIMIT_S).assert_success()
    assert "is stopped" in stopped.stdout
    assert fleet.pending(run) == 0
    fleet.run("resume", run, "-d", timeout_s=LIMIT_S).assert_success()
    fleet.await_entry("long", 2)
    ended = fleet.run("cancel", run, timeout_s=LIMIT_S).assert_success()
    assert "cancelled for good" in ended.stdout
    assert fleet.run("status", run, "--json").assert_success().json()["status"] == "cancelled"
    assert worker.process is not None
    until(lambda: list(worker.alive()) == [worker.process and worker.process.pid])
    assert fleet.entries() == ["first", "long", "long"]


def test_fleet_what_is_cancelled_is_gone_in_time_with_its_children(fleet: ServerFleet) -> None:
    """Also what ignores TERM, and what has left its session."""
    fleet.timing(HASTY)
    worker = fleet.worker("one")
    run = fleet.begin("deaf.yaml")
    until(lambda: len(fleet.entries()) == 3)
    asked = time.monotonic()
    ended = fleet.run("cancel", run, timeout_s=LIMIT_S).assert_success()
    passed = time.monotonic() - asked
    assert "cancelled for good" in ended.stdout
    assert [pid for pid in fleet.entries() if Path(f"/proc/{pid}").exists()] == []
    # Nothing but the worker is left by then.
    assert worker.process is not None
    assert [*worker.alive()] == [worker.process.pid]
    # A busy machine may be slow; what waits for another grace is slower.
    assert passed < HASTY["grace"] + 2 + _BUSY_S


def test_fleet_a_worker_that_is_killed_goes_on_when_it_is_back(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = fleet.begin("long.yaml")
    fleet.await_entry("long")
    worker.kill()
    fleet.allow()
    fleet.await_entry("last")
    worker.start()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "last"]
    # Nobody has waited for a timeout.
    assert "EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT" not in fleet.history(run)


def test_fleet_a_worker_that_leaves_hands_its_runs_over(fleet: ServerFleet) -> None:
    first = fleet.worker("one")
    run = fleet.begin("long.yaml")
    fleet.await_entry("long")
    second = fleet.worker("two")
    until(lambda: machine_of(fleet, run) == first.name)
    assert first.terminate() == 0
    fleet.await_entry("long", 2)
    until(lambda: machine_of(fleet, run) == second.name)
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "long", "last"]
    # Its root is another one, so that agents' sessions cannot go on: that is said where users look.
    told = fleet.run("logs", run).assert_success().stdout
    assert "in another place than before: agents begin new sessions" in told
    assert "copy" not in told


def machine_of(fleet: ServerFleet, run: str) -> str | None:
    """Where the list of the fleet says that a run is."""
    listed = fleet.run("runs", "--fleet", "--json").assert_success().json()["runs"]
    (machine,) = (one["machine"] for one in listed if one["run_id"] == run)
    return None if machine is None else str(machine)


def test_fleet_the_machine_of_a_run_is_named_not_who_looks(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = fleet.begin("long.yaml")
    fleet.await_entry("long")
    words = (sys.executable, "-m", "orchestrate", "attach", run, "--no-live")
    with subprocess.Popen(
        words, cwd=fleet.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, **fleet.surroundings},
    ) as looks:  # fmt: skip
        assert looks.stderr is not None
        said = looks.stderr.readline()
        fleet.allow()
        looks.communicate()
    assert said == f"run {run} goes on in {worker.name} (orchestrate worker)\n"
    assert f"  on machine  {worker.name}\n" in fleet.run("status", run).assert_success().stdout
    assert looks.returncode == 0


def test_fleet_a_pool_without_workers_is_named_and_served_later(fleet: ServerFleet) -> None:
    sent = fleet.send("r.yaml", "-d").assert_success()
    assert f"no worker serves the pool {fleet.pool}" in sent.stderr
    run = sent.stdout.strip()
    assert "published nothing yet" in fleet.run("status", run).assert_success().stdout
    fleet.worker("one")
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["recipe"]


def test_fleet_a_run_that_no_worker_ever_saw_is_cancelled_without_one(fleet: ServerFleet) -> None:
    """As when the name of the pool was mistyped."""
    run = fleet.begin("r.yaml")
    assert "cancelled for good" in fleet.run("cancel", run).assert_success().stdout
    assert fleet.run("status", run, "--json").json()["status"] == "cancelled"
    fleet.worker("one")
    fleet.send("m.yaml").assert_success()
    assert fleet.entries() == ["machine"]
    fleet.run("clean", "--older-than", "0s", "--status", "unknown", timeout_s=LIMIT_S)
    assert run not in fleet.run("runs").stdout


@pytest.mark.parametrize("pool", ["", " desk", "a,b"])
def test_fleet_a_pool_that_no_worker_could_serve_is_refused(fleet: ServerFleet, pool: str) -> None:
    refused = fleet.run("run", "r.yaml", "--fleet", pool).assert_exit(2)
    assert f"--fleet '{pool}' does not name a pool" in refused.stderr


def test_fleet_one_worker_for_a_root_and_a_name(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    words = ("worker", "--pools", fleet.pool, "--name", worker.name)
    same_root = fleet.run(*words, "--root", str(worker.root), timeout_s=LIMIT_S).assert_exit(5)
    assert "another worker works in" in same_root.stderr
    root = str(fleet.top / "other")
    same_name = fleet.run(*words, "--root", root, timeout_s=LIMIT_S).assert_exit(5)
    assert f"another worker is called {worker.name}" in same_name.stderr


def test_fleet_of_two_workers_of_one_name_that_start_together_one_is_refused(
    fleet: ServerFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither had polled when the other one looked."""
    machines = [Machine("same", fleet.top / root, ("p",), 1, {}, 60.0) for root in ("a", "b")]
    for machine in machines:
        machine.root.mkdir()
    machines.sort(key=lambda machine: machine.identity)

    async def both(*_: object) -> set[str]:
        return {machine.identity for machine in machines}

    monkeypatch.setattr("orchestrate.fleet.worker.live_pollers", both)
    client: Any = SimpleNamespace(namespace="default")
    asyncio.run(_be_first(client, machines[0], set()))
    with pytest.raises(ConfigError, match="another worker is called same"):
        asyncio.run(_be_first(client, machines[1], set()))


def test_fleet_clean_takes_what_was_published_and_leaves_what_is_open(fleet: ServerFleet) -> None:
    fleet.worker("one")
    over = fleet.send("r.yaml").assert_success().stderr.split()[1]
    open_ = fleet.send("gate.yaml").assert_exit(6).stderr.split()[1]
    refs = fleet.git("ls-remote", str(fleet.top / "remote.git"))
    assert f"refs/orchestrate/{over}/state" in refs
    fleet.run("clean", "--older-than", "0s", "--status", "unknown", timeout_s=LIMIT_S)
    refs = fleet.git("ls-remote", str(fleet.top / "remote.git"))
    assert over not in refs
    assert f"refs/orchestrate/{open_}/state" in refs
    assert [one["run_id"] for one in fleet.run("runs", "--json").json()["runs"]] == [open_]


def test_fleet_clean_takes_what_a_run_has_published_that_was_fetched(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.send("r.yaml").assert_success().stderr.split()[1]
    fleet.run("fetch", run).assert_success()
    assert run in fleet.git("ls-remote", str(fleet.top / "remote.git"))
    fleet.run("clean", "--older-than", "0s", timeout_s=LIMIT_S).assert_success()
    assert run not in fleet.git("ls-remote", str(fleet.top / "remote.git"))
    assert fleet.run("runs", "--json").json()["runs"] == []


def test_fleet_a_run_of_another_workspace_is_found_by_its_whole_id(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.send("gate.yaml").assert_exit(6).stderr.split()[1]
    shutil.rmtree(fleet.folder / ".orchestrate")
    unknown = fleet.run("status", f"{run[:-6]}aaaaaa").assert_exit(2)
    assert "there is no run" in unknown.stderr
    fleet.run("status", run[:-1]).assert_exit(2)
    assert fleet.run("approvals", "--json").json() == {"approvals": []}
    listed = fleet.run("approvals", "--fleet", "--json").assert_success().json()["approvals"]
    assert [one["stage"] for one in listed if one["run_id"] == run] == ["Ask"]
    assert f"orchestrate approve {run}" in fleet.run("approvals", "--fleet").stdout
    assert fleet.run("status", run, "--json").assert_success().json()["status"] == "paused"
    fleet.run("approve", run).assert_success()
    fleet.wait(run).assert_success()
    assert fleet.run("fetch", run, "--json").assert_success().json()["is_here"]
    assert fleet.entries() == ["before", "after"]
