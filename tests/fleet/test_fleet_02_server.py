"""The server that the other tests use: it keeps what it has over a kill."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import Client

from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet


async def _start_one(address: str, name: str) -> None:
    client = await Client.connect(address)
    await client.start_workflow("nobody-serves-it", id=name, task_queue="none")


async def _ids(address: str) -> list[str]:
    client = await Client.connect(address)
    return [one.id async for one in client.list_workflows()]


def test_a_server_that_is_killed_has_its_workflows_when_it_is_back(
    temporal_server: TemporalServer,
) -> None:
    asyncio.run(_start_one(temporal_server.address, "kept"))
    before = temporal_server.address
    temporal_server.kill()
    temporal_server.start()
    assert temporal_server.address == before
    assert "kept" in asyncio.run(_ids(before))
