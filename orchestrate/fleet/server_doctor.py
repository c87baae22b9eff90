"""What the server of a fleet says when it is examined: whether it answers, its clock, its pools."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
    PollActivityTaskQueueRequest,
)
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from orchestrate import __version__
from orchestrate.errors import ConfigError, UsageError
from orchestrate.fleet.connect import connect
from orchestrate.fleet.doctor import clock_finding
from orchestrate.fleet.inventory import ANSWER_S, MACHINE, Inventory
from orchestrate.fleet.permits import announced_on
from orchestrate.fleet.pollers import live_pollers
from orchestrate.fleet.protocol import machine_queue, pool_queue
from orchestrate.fleet.server_list import runs_of_namespace
from orchestrate.fleet.settings import FleetSettings
from orchestrate.view.doctor import Finding

# The server refuses to hold a poll for less than a second.
_POLL_S = 5.0
_LOOK_S = 0.05


def examine(settings: FleetSettings, pools: Sequence[str]) -> list[Finding]:
    """What the server says about itself and the pools."""
    return asyncio.run(examine_server(settings, pools))


async def examine_server(settings: FleetSettings, pools: Sequence[str]) -> list[Finding]:
    """The server, and the pools that are named, set up or used by runs."""
    try:
        client = await connect(settings)
    except (ConfigError, UsageError) as error:
        return [Finding("server", False, error.message, error.hint, is_needed=True)]
    found = [one async for one in _server(client, settings)]
    used = [run.pool for run in await runs_of_namespace(client) if run.is_open and run.pool]
    set_up = [pool.name for pool in settings.pools.values() if not pool.hosts]
    names = dict.fromkeys((*pools, *set_up, *sorted(used)))
    limits = [one async for one in _limits(client)]
    served = {name: await _machines(client, name) for name in names}
    of_pools = [_pool(name, machines) for name, machines in served.items()]
    machines = sorted({one for known in served.values() for one in known})
    of_machines = await asyncio.gather(*(_machine(client, name) for name in machines))
    return [*found, *of_pools, *of_machines, *limits]


async def _server(client: Client, settings: FleetSettings) -> AsyncIterator[Finding]:
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest())
    yield Finding("server", True, f"Temporal {info.server_version} at {settings.address}")
    yield Finding("namespace", True, settings.namespace)
    if settings.tls is None:
        where = "this computer" if settings.is_local else "another computer (insecure: true)"
        yield Finding("tls", settings.is_local, f"plain text to {where}")
    else:
        who = "with a client certificate" if settings.tls.cert else "without a client certificate"
        yield Finding("tls", True, who)
    if settings.keys is None:
        yield Finding("keys", True, "none: the server, on this computer, holds all in clear")
    else:
        yield Finding("keys", True, f"what runs say is encrypted ({settings.keys})")
    yield await _clock(client)


async def _clock(client: Client) -> Finding:
    """The server tells no time, but notes when a worker polled: we poll a queue of our own."""
    identity = f"doctor-{os.getpid()}-{time.time_ns()}"
    queue = TaskQueue(name=identity)
    before = time.time()
    asked = PollActivityTaskQueueRequest(
        namespace=client.namespace, task_queue=queue, identity=identity
    )
    poll = asyncio.ensure_future(
        client.workflow_service.poll_activity_task_queue(asked, timeout=timedelta(seconds=_POLL_S))
    )
    look = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=queue,
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )  # fmt: skip
    try:
        while not poll.done():
            described = await client.workflow_service.describe_task_queue(look)
            for poller in described.pollers:
                noted = poller.last_access_time.ToDatetime(UTC).timestamp()
                return clock_finding("clock", noted, before, time.time())
            await asyncio.sleep(_LOOK_S)
    finally:
        poll.cancel()
        with suppress(asyncio.CancelledError, RPCError):
            await poll
    return Finding("clock", False, "the server did not tell its time")


async def _limits(client: Client) -> AsyncIterator[Finding]:
    """How many calls of an agent may be made at once, where a worker limits that."""
    announced = await announced_on(client, {})
    for name, limit in sorted(announced.limits.items()):
        held = sum(one.startswith(f"permit/{name}/") for one in announced.held)
        yield Finding(f"limit {name}", True, f"{held} of {limit} calls at once are being made")


async def _machines(client: Client, pool: str) -> list[str]:
    """Those that serve a pool."""
    workers = await live_pollers(client, pool_queue(pool))
    return sorted(worker.partition("@")[0] for worker in workers)


def _pool(name: str, machines: Sequence[str]) -> Finding:
    if not machines:
        return Finding(
            f"pool {name}", False, f"no worker serves the pool {name}",
            f"orchestrate worker --pools {name} --root DIR", is_needed=True,
        )  # fmt: skip
    return Finding(f"pool {name}", True, f"served by {', '.join(machines)}")


async def _machine(client: Client, name: str) -> Finding:
    """What runs find there, which its worker alone can tell."""
    limit = timedelta(seconds=ANSWER_S)
    try:
        if not await live_pollers(client, machine_queue(name)):
            return Finding(f"machine {name}", False, "it takes no questions")
        found: Inventory = await client.execute_workflow(
            MACHINE, id=f"machine/{name}/{os.urandom(6).hex()}", task_queue=machine_queue(name),
            execution_timeout=limit, result_type=Inventory,
        )  # fmt: skip
    except (WorkflowFailureError, RPCError):
        return Finding(f"machine {name}", False, f"it gave no answer within {ANSWER_S:g} s")
    programs = [f"{program} {version}".strip() for program, version in found.programs.items()]
    told = f"orchestrate {found.version}; {', '.join(programs) or 'neither git nor an agent'}"
    if found.version == __version__:
        return Finding(f"machine {name}", True, told)
    return Finding(
        f"machine {name}", False, f"{told}; {__version__} here",
        "install the same version of orchestrate on all machines",
    )  # fmt: skip
