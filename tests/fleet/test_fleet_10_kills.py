"""Where a worker, its server or its whole machine may stand still or die (fleet.md, "Shown by").

The ledger is the judge: the long step appends a line when it begins, and one when it ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from tests.fleet.machines import HASTY, LIMIT_S, Handle, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_06_losses import LONG, published_steps

pytestmark = pytest.mark.fleet

STEPS = """
version: "1.4"
name: steps
steps:
  - name: First
    command: ["sh", "-c", "echo first >> $LEDGER"]
  - name: Long
    command: ["sh", "long.sh"]
"""
PIDS = """
version: "1.4"
name: pids
steps:
  - name: Long
    command: ["sh", "-c", "echo $$ >> $LEDGER; until test -e $GO; do sleep 0.1; done"]
"""
STOPS = STEPS + "    on_lost: stop\n"
_TIMED_OUT = "EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT"
# Longer than three beats.
_DOWN_S = 3.0
# After the heartbeat timeout, the SDK ends what it has not sent heartbeats for itself.
_SDK_WAITS_S = 5.0


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    files = {"steps.yaml": STEPS, "stops.yaml": STOPS, "long.sh": LONG,
             "pids.yaml": PIDS}  # fmt: skip
    made = ServerFleet(tmp_path, temporal_server, files)
    yield made
    made.close()


def test_fleet_a_server_that_is_down_for_a_while_costs_nothing(fleet: ServerFleet) -> None:
    fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    fleet.server.kill()
    time.sleep(_DOWN_S)  # what is tried: it is away for as long as this
    fleet.server.start()
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "end"]
    assert _TIMED_OUT not in fleet.history(run)


def test_fleet_a_step_may_take_longer_than_any_timeout(fleet: ServerFleet) -> None:
    fleet.timing(HASTY)
    fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")

    async def beats_s(handle: Handle) -> float:
        """How long its heartbeats have been heard."""
        (sits,) = (await handle.describe()).raw_description.pending_activities
        return float(sits.last_heartbeat_time.seconds - sits.last_started_time.seconds)

    long_s = HASTY["heartbeat_timeout"] + _SDK_WAITS_S + 2 * HASTY["beat"]
    until(lambda: fleet.on_server(beats_s, run) >= long_s or _TIMED_OUT in fleet.history(run))
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "end"]
    assert _TIMED_OUT not in fleet.history(run)


@pytest.mark.parametrize("place", ["find", "start"])
def test_fleet_a_worker_killed_as_it_begins_a_sitting_begins_it_once(
    fleet: ServerFleet, place: Literal["find", "start"]
) -> None:
    """Announced but not claimed; claimed, but without a heartbeat yet."""
    worker = fleet.worker("one", stands_still=place)
    run = fleet.begin("steps.yaml")
    until(worker.still.exists)
    worker.kill()
    fleet.allow()
    worker.start()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "end"]
    assert _TIMED_OUT not in fleet.history(run)


def test_fleet_an_engine_that_is_killed_takes_its_programs_along(fleet: ServerFleet) -> None:
    worker = fleet.worker("one")
    run = fleet.begin("pids.yaml")
    until(fleet.entries)
    (engine,) = (pid for pid in worker.alive() if is_engine(pid))
    worker.tell([engine], signal.SIGKILL)
    until(lambda: len(fleet.entries()) == 2)
    assert not Path(f"/proc/{fleet.entries()[0]}").exists()
    fleet.allow()
    fleet.wait(run).assert_success()
    assert len(fleet.entries()) == 2
    assert "attempt 1 was lost" in fleet.run("logs", run).assert_success().stdout


def is_engine(pid: int) -> bool:
    with suppress(OSError):
        return b"\0seat\0sit\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_fleet_what_must_not_be_repeated_parks_when_its_machine_is_lost(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    first = fleet.worker("one")
    run = fleet.begin("stops.yaml")
    fleet.await_entry("long")
    until(lambda: "First" in published_steps(fleet, run))
    first.vanish()
    fleet.worker("two")
    fleet.wait(run).assert_exit(6)
    assert fleet.entries() == ["first", "long"]
    assert "'Long' was lost" in fleet.run("status", run).assert_success().stdout
    fleet.allow()
    fleet.run("resume", run, timeout_s=LIMIT_S).assert_success()
    assert fleet.entries() == ["first", "long", "long", "end"]
