"""The console shows runs on other machines as they are published, and steers them by commands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fleet.machines import LIMIT_S, ServerFleet, until
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_05_runs import GATE, LONG

pytestmark = pytest.mark.fleet
V1 = "/api/v1"


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Iterator[ServerFleet]:
    made = ServerFleet(tmp_path, temporal_server, {"gate.yaml": GATE, "long.yaml": LONG})
    yield made
    made.close()


@pytest.fixture
def client(fleet: ServerFleet) -> Iterator[httpx2.Client]:
    """Of a real console, which serves the fleet's workspace."""
    with fleet.background("serve", "--port", "0") as process:
        assert process.stderr is not None
        while "open:" not in (said := process.stderr.readline()):
            assert said, "it has ended"
        key = (fleet.top / "config" / "orchestrate" / "api-key").read_text().strip()
        address, headers = said.split()[1].partition("#")[0], {"authorization": f"Bearer {key}"}
        with httpx2.Client(
            base_url=address, headers=headers, timeout=LIMIT_S, trust_env=False
        ) as client:
            yield client
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def row_of(client: httpx2.Client, run: str) -> dict[str, Any]:
    rows = client.get(f"{V1}/runs").json()["runs"]
    found: dict[str, Any] = next(row for row in rows if row["run_id"] == run)
    return found


def test_fleet_a_run_elsewhere_is_shown_and_its_gate_is_answered(
    fleet: ServerFleet, client: httpx2.Client
) -> None:
    fleet.worker("one")
    run = fleet.send("gate.yaml", "-d").assert_success().stdout.strip()
    until(lambda: row_of(client, run)["status"] == "paused")
    assert "another machine" in row_of(client, run)["note"]
    (question,) = client.get(f"{V1}/inbox").json()["questions"]
    assert (question["run_id"], question["about"]) == (run, "Ask")
    told = {"question": question["id"], "digest": question["digest"], "value": "approve"}
    stale = client.post(f"{V1}/runs/{run}/answer", json={**told, "digest": "x"})
    assert stale.status_code == 409
    answered = client.post(f"{V1}/runs/{run}/answer", json={**told, "message": "fine"})
    assert answered.status_code == 200, answered.text
    fleet.wait(run).assert_success()
    until(lambda: row_of(client, run)["status"] == "completed")
    assert fleet.entries() == ["before", "after"]
    assert client.get(f"{V1}/inbox").json()["questions"] == []
    again = client.post(f"{V1}/runs/{run}/answer", json=told)
    assert (again.status_code, again.json()["already"]) == (200, True)


def test_fleet_a_run_elsewhere_is_stopped_and_ended_from_the_console(
    fleet: ServerFleet, client: httpx2.Client
) -> None:
    fleet.worker("one")
    run = fleet.begin("long.yaml")
    assert "another machine" in row_of(client, run)["note"]
    fleet.await_entry("long")
    until(lambda: row_of(client, run)["status"] == "running")
    stopped = client.post(f"{V1}/runs/{run}/stop", json={})
    assert stopped.status_code == 200, stopped.text
    assert fleet.run("status", run, "--json").json()["status"] == "paused"
    resumed = client.post(f"{V1}/runs/{run}/resume", json={})
    assert resumed.status_code == 200, resumed.text
    fleet.await_entry("long", 2)
    ended = client.post(f"{V1}/runs/{run}/cancel", json={})
    assert ended.status_code == 200, ended.text
    assert fleet.run("status", run, "--json", timeout_s=LIMIT_S).json()["status"] == "cancelled"
    assert fleet.entries() == ["first", "long", "long"]
