"""The items of a run that is spread, on a server: each a workflow of its own.

They are started by a client, not as children of the run's workflow: its history stays as short as
it is without them.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from orchestrate.errors import ConfigError, StateError
from orchestrate.fleet.connect import connect
from orchestrate.fleet.enqueue import start_order
from orchestrate.fleet.protocol import Decision, Order, Sat, Wish
from orchestrate.fleet.server_run import ServerRun
from orchestrate.fleet.settings import FleetSettings
from orchestrate.fleet.standing import Standing
from orchestrate.state.users import user_name

_T = TypeVar("_T")


class ItemsOnServer:
    """Asked by threads; one of our own speaks to the server."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, remote: str) -> None:
        self._client = client
        self._loop = loop
        self._remote = remote

    def find_place(self, item: str, pool: str) -> bool:  # noqa: ARG002 - the server has queues
        return True

    def address_of(self, item: str) -> str:  # noqa: ARG002 - all publish to one repository
        return self._remote

    def standing(self, item: str) -> Standing | None:
        try:
            return self._ask(ServerRun(self._client, item).standing())
        except StateError:
            return None  # the server does not know it

    def start(self, order: Order) -> None:
        async def start() -> None:
            try:
                await start_order(self._client, order)
            except WorkflowAlreadyStartedError:
                return  # before a kill
            except RPCError as error:
                message = f"the server did not take {order.id}: {error.message}"
                raise ConfigError(message) from None

        self._ask(start())

    def go_on(self, item: str, decisions: Sequence[Decision]) -> None:
        async def tell() -> None:
            run = ServerRun(self._client, item)
            for decision in decisions:
                await run.decide(decision)
            await run.resume(Wish(by=user_name(os.environ)))

        self._ask(tell())

    def end(self, item: str, how: str) -> None:
        self._ask(ServerRun(self._client, item).end(how, user_name(os.environ)))

    def how_ends(self, run: str) -> str:
        async def look() -> str:
            handle: WorkflowHandle[object, Sat] = self._client.get_workflow_handle(run)
            try:
                return str(await (await handle.describe()).memo_value("ends", ""))
            except RPCError as error:
                raise ConfigError(f"the server did not answer: {error.message}") from None

        return self._ask(look())

    def _ask(self, question: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()


def open_items(settings: FleetSettings, remote: str) -> ItemsOnServer:
    """Connected to the server of the settings; `remote` carries the run and its items."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="items", daemon=True).start()
    try:
        client = asyncio.run_coroutine_threadsafe(connect(settings), loop).result()
    except BaseException:
        loop.call_soon_threadsafe(loop.stop)
        raise
    return ItemsOnServer(client, loop, remote)
