"""Machines that die (fleet.md, "Exactly once, or lost"): nothing twice in silence, nor at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrate.fleet.seat import Seat
from orchestrate.fleet.take import publish_rest
from orchestrate.fleet.transport import PushRefused
from tests.fleet.machines import HASTY, LIMIT_S, ServerFleet, Worker, until
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet

# Each start and end of the long step is on record, with who it was.
STEPS = """
version: "1.4"
name: steps
steps:
  - name: First
    command: ["sh", "-c", "echo first >> $LEDGER; echo first > first.txt"]
  - name: Long
    command: ["sh", "long.sh"]
  - name: Ask
    approval: {prompt: "Go on?"}
  - name: Last
    command: ["sh", "-c", "echo last >> $LEDGER; cat first.txt"]
"""
LONG = "echo long >> $LEDGER; until test -e $GO; do sleep 0.1; done; echo end >> $LEDGER\n"


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"steps.yaml": STEPS, "long.sh": LONG})
    yield made
    made.close()


def seat_on(fleet: ServerFleet, worker: Worker, run: str) -> Seat:
    (mirror,) = os.listdir(worker.root / "mirrors")
    name = mirror.removesuffix(".git")
    return Seat(run, str(worker.root), name, "", "step", str(fleet.top / "remote.git"))


def published_steps(fleet: ServerFleet, run: str) -> dict[str, dict[str, object]]:
    steps: dict[str, dict[str, object]] = (
        fleet.run("status", run, "--json").assert_success().json().get("steps", {})
    )
    return {name: step for name, step in steps.items() if step["status"] == "completed"}


def test_fleet_what_a_machine_that_is_gone_did_is_announced_and_begun_anew(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    first = fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    until(lambda: "First" in published_steps(fleet, run))
    first.vanish()
    second = fleet.worker("two")
    fleet.await_entry("long", 2)
    fleet.allow()
    fleet.wait(run).assert_exit(6)
    assert fleet.entries() == ["first", "long", "long", "end"]
    status = fleet.run("status", run, "--json").assert_success().json()
    assert status["steps"]["Long"]["attempts"] == 2
    told = fleet.run("logs", run).assert_success().stdout
    assert f"lost with {first.name}" in told
    assert f"{first.name} no longer responds: what it did since the last" in told
    # What the first machine still has comes too late.
    with pytest.raises(PushRefused):
        publish_rest(seat_on(fleet, first, run))
    # And it is never gone on with.
    second.terminate()
    first.start()
    fleet.run("approve", run).assert_success()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "long", "end", "last"]
    assert fleet.run("logs", run, "Last").assert_success().stdout == "first\n"


def test_fleet_all_that_decides_may_be_killed_at_once(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    worker.kill()
    fleet.server.kill()
    fleet.allow()
    fleet.await_entry("end")
    fleet.server.start()
    worker.start()
    fleet.wait(run).assert_exit(6)
    assert fleet.entries() == ["first", "long", "end"]
    assert "EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT" not in fleet.history(run)


def test_fleet_a_worker_that_is_not_back_has_its_engine_ended_in_time(fleet: ServerFleet) -> None:
    """The lease runs out at the keeper: what it ran is published, and goes on elsewhere."""
    fleet.timing(HASTY)
    first = fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    first.kill()
    fleet.worker("two")
    fleet.await_entry("long", 2)
    assert list(first.alive()) == []
    fleet.allow()
    fleet.wait(run).assert_exit(6)
    assert fleet.entries() == ["first", "long", "long", "end"]
    fleet.run("deny", run, timeout_s=LIMIT_S).assert_success()
