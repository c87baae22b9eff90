"""All runs of a namespace, by workflow type and memo: no worker has to be alive for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from orchestrate.errors import OrchestrateError
from orchestrate.fleet.connect import connect
from orchestrate.fleet.protocol import WORKFLOW
from orchestrate.fleet.server_run import ServerRun
from orchestrate.fleet.settings import FleetSettings
from orchestrate.record import record, replace

_QUEUE = "pool:"


@record
class ListedRun:
    """A run as the server lists it; `status` is `unknown` where its memo cannot be opened."""

    id: str
    status: str
    pool: str
    machine: str
    started_at: datetime
    ended_at: datetime | None
    is_open: bool


def list_runs_of(settings: FleetSettings, limit: int | None) -> list[ListedRun]:
    """The runs of the namespace, newest first."""

    async def ask() -> list[ListedRun]:
        client = await connect(settings)
        listed = await runs_of_namespace(client, limit)
        return [*await asyncio.gather(*(_with_machine(client, one) for one in listed))]

    return asyncio.run(ask())


async def runs_of_namespace(client: Client, limit: int | None = None) -> list[ListedRun]:
    """The newest first."""
    found: list[ListedRun] = []
    async for one in client.list_workflows(f'WorkflowType = "{WORKFLOW}"'):
        if limit is not None and len(found) == limit:
            break
        if "/" not in one.id:  # an item belongs to its run
            found.append(await _listed(one))
    return found


async def _with_machine(client: Client, run: ListedRun) -> ListedRun:
    """Where a run is at work only its heartbeats say; the memo, where it was last."""
    if run.status == "running":
        with suppress(OrchestrateError):
            return replace(run, machine=(await ServerRun(client, run.id).standing()).machine)
    return run


async def _listed(one: WorkflowExecution) -> ListedRun:
    is_open = one.status == WorkflowExecutionStatus.RUNNING
    try:
        memo = await one.memo()
        status = str(memo.get("status", "running"))
    except OrchestrateError:
        memo, status = {}, "unknown"  # sealed with a key that is not here
    if not is_open and status == "running":
        status = "cancelled"  # ended by a hand on the server itself
    return ListedRun(
        id=one.id,
        status=status,
        # Queues are readable whatever seals the memo.
        pool=str(memo.get("pool", "") or one.task_queue.removeprefix(_QUEUE)),
        machine=str(memo.get("machine", "")),
        started_at=one.start_time,
        ended_at=one.close_time,
        is_open=is_open,
    )
