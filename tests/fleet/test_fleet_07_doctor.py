"""What `fleet doctor` and `runs --fleet` say of a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from orchestrate.fleet.doctor import clock_finding
from orchestrate.fleet.pollers import live_pollers
from orchestrate.fleet.protocol import WORKFLOW, pool_queue
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.test_fleet_01_ssh import Fleet

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="module")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """One of its own: what other tests leave on theirs would be told of, too."""
    server = TemporalServer(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fleet(tmp_path: Path, temporal_server: TemporalServer) -> Fleet:
    made = Fleet(tmp_path)
    made.settings(f"address: {temporal_server.address}\nremote: origin\n")
    made.git("remote", "add", "origin", str(made.folder / ".git"))
    return made


@activity.defn(name="nothing")
async def _nothing() -> None:
    pass


@contextmanager
def worker_of(address: str, queue: str, identity: str) -> Iterator[None]:
    """Somebody who polls a queue."""
    ready = threading.Event()
    ends: list[Callable[[], object]] = []

    async def poll() -> None:
        client = await Client.connect(address, identity=identity)
        async with Worker(client, task_queue=queue, activities=[_nothing]):
            # Bounded by who waits for it.
            while not await live_pollers(client, queue):
                await asyncio.sleep(0.05)
            over = asyncio.Event()
            loop = asyncio.get_running_loop()
            ends.append(lambda: loop.call_soon_threadsafe(over.set))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(poll()))
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        ends[0]()
        thread.join()


def _findings(fleet: Fleet, code: int, *pools: str) -> dict[str, dict[str, Any]]:
    found = fleet.run("fleet", "doctor", *pools, "--json").assert_exit(code).json()["findings"]
    return {one["name"]: one for one in found}


def test_doctor_tells_of_server_remote_clock_and_pools(
    fleet: Fleet, temporal_server: TemporalServer
) -> None:
    with worker_of(temporal_server.address, pool_queue("gpu"), "box@1"):
        found = _findings(fleet, 0, "gpu")
    assert temporal_server.address in found["server"]["detail"]
    assert found["namespace"]["detail"] == "default"
    assert all(found[name]["ok"] for name in ("clock", "git remote", "timing", "tls", "keys"))
    assert found["pool gpu"]["detail"] == "served by box"
    assert found["machine box"]["detail"] == "it takes no questions"
    lacking = _findings(fleet, 5, "tpu")
    assert lacking["pool tpu"]["detail"] == "no worker serves the pool tpu"


def test_doctor_names_what_is_wrong(fleet: Fleet, temporal_server: TemporalServer) -> None:
    fleet.settings(
        f"address: {temporal_server.address}\nnamespace: nobodys\nremote: nowhere\n"
        "timing: {heartbeat_timeout: 1}\n"
    )
    found = _findings(fleet, 5)
    assert "no namespace 'nobodys'" in found["server"]["detail"]
    assert "nowhere" in found["git remote"]["detail"]
    assert "heartbeat_timeout" in found["timing"]["detail"]
    fleet.settings(f"address: {temporal_server.address}\n")
    assert "remote: origin" in _findings(fleet, 5)["git remote"]["advice"]


@pytest.mark.parametrize(
    ("theirs", "is_well"), [(100, True), (96, True), (94, False), (113, False)]
)
def test_a_clock_that_differs_is_told(theirs: float, is_well: bool) -> None:
    assert clock_finding("clock", theirs, before=100, after=107).is_well == is_well


def test_runs_of_the_namespace_are_listed_without_a_worker(
    fleet: Fleet, temporal_server: TemporalServer
) -> None:
    runs = {"20261118T010203Z-aaaaaa": "paused", "20261118T010204Z-bbbbbb": "failed"}

    async def start() -> None:
        client = await Client.connect(temporal_server.address)
        for run, status in runs.items():
            memo = {"status": status, "pool": "quiet", "machine": "box"}
            await client.start_workflow(WORKFLOW, id=run, task_queue=pool_queue("quiet"), memo=memo)
        await client.start_workflow("somebody-elses", id="other", task_queue=pool_queue("quiet"))
        listed = 0
        async with asyncio.timeout(60):
            while listed < len(runs):  # lists of the server follow with a delay
                found = client.list_workflows(f'WorkflowType = "{WORKFLOW}"')
                listed = len([one.id async for one in found if one.id in runs])

    asyncio.run(start())
    listed = fleet.run("runs", "--fleet", "--json").assert_success().json()["runs"]
    assert {one["run_id"]: one["status"] for one in listed if one["run_id"] in runs} == runs
    assert {(one["pool"], one["machine"]) for one in listed if one["run_id"] in runs} == {
        ("quiet", "box")
    }
    assert "other" not in {one["run_id"] for one in listed}
    failed = fleet.run("runs", "--fleet", "--status", "failed").assert_success().stdout
    assert "20261118T010204Z-bbbbbb  failed" in failed
    assert "aaaaaa" not in failed
    # The server tells which pools are used.
    assert "no worker serves the pool quiet" in fleet.run("fleet", "doctor").assert_exit(5).stdout


def test_without_a_server_the_address_is_named(fleet: Fleet) -> None:
    fleet.settings("address: 127.0.0.1:1\n")
    refused = fleet.run("runs", "--fleet").assert_exit(5)
    assert "the Temporal server at 127.0.0.1:1 cannot be reached" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_the_extra_it_is_named(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrate.fleet.extra._NEEDS", ("temporalio", "not_there_at_all"))
    refused = fleet.run("runs", "--fleet").assert_exit(5)
    assert "orchestrate[fleet]" in refused.stderr
    assert "not_there_at_all is not installed" in refused.stderr
    assert "orchestrate[fleet]" in _findings(fleet, 5)["server"]["detail"]
