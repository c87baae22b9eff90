"""A machine that sleeps for so long that it counts as lost, and wakes (fleet.md, "Shown by")."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrate.fleet.take import publish_rest
from orchestrate.fleet.transport import PushRefused
from tests.fleet.machines import HASTY, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_06_losses import LONG, published_steps, seat_on
from tests.fleet.test_fleet_10_kills import STEPS

pytestmark = pytest.mark.fleet


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"steps.yaml": STEPS, "long.sh": LONG})
    yield made
    made.close()


def test_fleet_a_machine_that_slept_too_long_ends_what_others_have_begun_anew(
    fleet: ServerFleet,
) -> None:
    fleet.timing(HASTY)
    first = fleet.worker("one")
    run = fleet.begin("steps.yaml")
    fleet.await_entry("long")
    until(lambda: "First" in published_steps(fleet, run))
    asleep = first.freeze()
    fleet.worker("two")
    fleet.await_entry("long", 2)
    # It wakes while the other one works: its keeper ends its engine, and nothing comes through.
    first.tell(asleep, signal.SIGCONT)
    assert first.process is not None
    until(lambda: list(first.alive()) == [first.process and first.process.pid])
    assert first.terminate() == 0
    with pytest.raises(PushRefused):
        publish_rest(seat_on(fleet, first, run))
    fleet.allow()
    fleet.wait(run).assert_success()
    assert fleet.entries() == ["first", "long", "long", "end"]
    assert f"lost with {first.name}" in fleet.run("logs", run).assert_success().stdout
