"""A run on a server, as its client sees it: how it stands, and what can be said to it."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode

from orchestrate import __version__
from orchestrate.errors import ConfigError, StateError
from orchestrate.exits import DONE, FAILED
from orchestrate.fleet.pollers import live_pollers
from orchestrate.fleet.protocol import (
    DECIDE,
    END,
    PROTOCOL,
    RESUME,
    Decision,
    Order,
    Sat,
    Wish,
    pool_queue,
)
from orchestrate.fleet.standing import Standing

# A worker that ends in the middle fails once.
_TRIES = 2
_LOOKED_AT = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


class ServerRun:
    """One run on the server."""

    def __init__(self, client: Client, run: str) -> None:
        self.id = run
        self._client = client
        self._handle: WorkflowHandle[object, Sat] = client.get_workflow_handle(run)

    async def standing(self) -> Standing:
        """From the memo: no worker has to be alive for it."""
        try:
            found = await self._handle.describe()
        except RPCError as error:
            raise self._explained(error) from None
        is_open = found.status == WorkflowExecutionStatus.RUNNING
        memo = await found.memo()
        self._require_protocol(int(memo.get("protocol", PROTOCOL)))
        status, pool = str(memo.get("status", "running")), str(memo.get("pool", ""))
        if not is_open and status == "running":
            status = "cancelled"  # ended by a hand on the server itself
        return Standing(
            status=status,
            pool=pool,
            machine=await self._machine(found) or str(memo.get("machine", "")),
            code=int(memo.get("code", FAILED if status == "cancelled" else DONE)),
            told=str(memo.get("told", "")),
            hindrance=_hindrance(found, pool),
            sitting=int(memo.get("sitting", 1)),
            is_open=is_open,
            decided=tuple(tuple(one) for one in memo.get("decided", ())),
        )

    def _require_protocol(self, spoken: int) -> None:
        if spoken != PROTOCOL:
            raise ConfigError(
                f"run {self.id} speaks protocol {spoken} of orchestrate, and {__version__} here "
                f"speaks {PROTOCOL}",
                "install the version of orchestrate that has started it",
            )

    async def _machine(self, found: WorkflowExecutionDescription) -> str:
        """Where it is at work now, which its last heartbeat has said."""
        for pending in found.raw_description.pending_activities:
            if pending.heartbeat_details.payloads:
                told = await found.data_converter.decode(pending.heartbeat_details.payloads)
                return str(told[0])
        return ""

    async def order(self) -> Order | None:
        """What was ordered, from the first event; None if the server does not know the run."""
        try:
            async for event in self._handle.fetch_history_events(page_size=1):
                given = event.workflow_execution_started_event_attributes.input.payloads
                found: list[Order] = await self._client.data_converter.decode(given, [Order])
                return found[0]
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise self._explained(error) from None
        return None

    async def has_worker(self, pool: str) -> bool:
        return bool(await live_pollers(self._client, pool_queue(pool)))

    async def decide(self, decision: Decision) -> None:
        await self._signal(DECIDE, decision)

    async def resume(self, wish: Wish) -> None:
        await self._signal(RESUME, wish)

    async def end(self, how: str, by: str) -> None:
        await self._signal(END, how, by)

    async def drop(self) -> bool:
        """Let the server forget a run that no worker has ever looked at; False if one has."""
        try:
            history = await self._handle.fetch_history()
            if any(event.event_type == _LOOKED_AT for event in history.events):
                return False
            await self._handle.terminate("cancelled before it began")
        except RPCError as error:
            raise self._explained(error) from None
        return True

    async def _signal(self, name: str, *given: object) -> None:
        try:
            await self._handle.signal(name, args=given)
        except RPCError as error:
            raise self._explained(error) from None

    def _explained(self, error: RPCError) -> ConfigError | StateError:
        if error.status == RPCStatusCode.NOT_FOUND:
            return StateError(
                f"the server does not know run {self.id}, or it is over",
                f"bring what it has published here: orchestrate fetch {self.id}",
            )
        return ConfigError(f"the server did not answer about run {self.id}: {error.message}")


def _hindrance(found: WorkflowExecutionDescription, pool: str) -> str:
    if found.raw_description.pending_workflow_task.attempt <= _TRIES:
        return ""
    return (
        f"workers of the pool {pool} fail to read the run: their `keys` may be others than those "
        "that it was sent with, and their logs say more"
    )
