"""Who serves a queue of the server: a worker's registration is its polling, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

# Who has polled within this time is taken to be alive: killed workers stay listed for minutes.
_ALIVE_S = 60.0


async def live_pollers(client: Client, queue: str) -> set[str]:
    """Who polls a queue for sittings, by identity."""
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    found = await client.workflow_service.describe_task_queue(asked)
    oldest = datetime.now(UTC) - timedelta(seconds=_ALIVE_S)
    return {
        poller.identity
        for poller in found.pollers
        if poller.last_access_time.ToDatetime(UTC) > oldest
    }
