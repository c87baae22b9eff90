"""Account limits over a fleet: a worker gets permits for the calls of its runs, and renews them.

`limits.concurrent: {AGENT: N}` of a worker's user says how many calls of an agent the account may
have; every worker announces its limits on the server, and the smallest number holds. A permit is
one of N workflow ids: the machine that starts the workflow has it. What is not renewed lapses
after a time in which the keeper has ended whatever ran under it.

    permit/AGENT/1 ... permit/AGENT/N     the permits that are held
    limits/MACHINE                        what a worker announces, in the memo
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from orchestrate.errors import ConfigError, OrchestrateError
from orchestrate.fleet.permit import GIVE_BACK, PERMIT, PERMITS_QUEUE, RENEW, Hold
from orchestrate.record import record
from orchestrate.state.permits import SOCKET
from orchestrate.state.slots import TOTAL

# So often is a permit renewed while it would hold without a word.
_RENEWALS = 6
# Limits may change while a call waits.
_LOOK_S = 10.0
_AGAIN_S = 1.0

Tell = Callable[[Mapping[str, Any]], Awaitable[None]]


@record
class Announced:
    """What the server lists: the smallest limits, and the permits that are held."""

    limits: Mapping[str, int]
    held: frozenset[str]

    def free(self, name: str) -> list[str]:
        """The ids that may be taken; those over a limit that has become smaller count, too."""
        limit = self.limits[name]
        allowed = [f"permit/{name}/{number}" for number in range(1, limit + 1)]
        over = {one for one in self.held if one.startswith(f"permit/{name}/")} - {*allowed}
        found = [one for one in allowed if one not in self.held]
        return found[: max(0, len(found) - len(over))]


async def announced_on(client: Client, own: Mapping[str, int]) -> Announced:
    """What holds now; a worker knows its own limits before the server lists them."""
    smallest, held = dict(own), set()
    query = f'WorkflowType = "{PERMIT}" AND ExecutionStatus = "Running"'
    async for one in client.list_workflows(query):
        if one.id.startswith("permit/"):
            held.add(one.id)
            continue
        with suppress(OrchestrateError):  # sealed with a key that is not here
            theirs: Mapping[str, int] = await one.memo_value("limits", {})
            for name, limit in theirs.items():
                smallest[name] = min(limit, smallest.get(name, limit))
    return Announced(smallest, frozenset(held))


class Permits:
    """Gets permits for the calls of this machine."""

    def __init__(
        self, client: Client, machine: str, limits: Mapping[str, int], seconds: float
    ) -> None:
        self._client = client
        self._machine = machine
        self._limits = dict(limits)
        self._seconds = seconds
        self._queues: dict[str, list[object]] = {}
        self._moved = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()

    async def begin(self, root: Path) -> None:
        """Announce the limits, then serve calls."""
        if self._limits:
            try:
                await self._announce()
            except RPCError as error:
                told = f"the server did not take the limits of {self._machine}: {error.message}"
                raise ConfigError(told) from None
            self._renewing = asyncio.ensure_future(self._renew_announced())
        else:
            with suppress(RPCError):  # of a worker that had some, and was ended
                await self._client.get_workflow_handle(self._announced_as).terminate()

        def take_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            call = asyncio.ensure_future(self._serve(reader, writer))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

        self._server = await asyncio.start_unix_server(take_call, sock=listen_below(root))

    async def close(self) -> None:
        """The calls of this machine are over."""
        if self._server is not None:
            self._server.close()
        if self._calls:  # what has ended is still giving back what it held
            await asyncio.wait(set(self._calls), timeout=_LOOK_S)
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(RPCError):
                await self._signal(self._announced_as, GIVE_BACK, self._machine)

    @property
    def _announced_as(self) -> str:
        return f"limits/{self._machine}"

    async def _announce(self) -> None:
        await self._start(
            self._announced_as, Hold(self._machine, self._seconds),
            WorkflowIDConflictPolicy.TERMINATE_EXISTING, {"limits": self._limits},
        )  # fmt: skip

    async def _renew_announced(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / _RENEWALS)
            try:
                await self._signal(self._announced_as, RENEW, self._machine)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:  # the server was away for too long
                    with suppress(RPCError):
                        await self._announce()

    async def _start(
        self, name: str, hold: Hold, conflict: WorkflowIDConflictPolicy, memo: dict[str, Any]
    ) -> None:
        await self._client.start_workflow(
            PERMIT, hold, id=name, task_queue=PERMITS_QUEUE, memo=memo,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE, id_conflict_policy=conflict,
        )  # fmt: skip

    async def _signal(self, name: str, what: str, owner: str) -> None:
        await self._client.get_workflow_handle(name).signal(what, owner)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One call, from its question to the moment in which it is over."""
        try:
            order = json.loads(await reader.readline())
            work = asyncio.ensure_future(self._call(order, _teller(writer)))
            ends = asyncio.ensure_future(reader.readline())
            await asyncio.wait({work, ends}, return_when=asyncio.FIRST_COMPLETED)
            # Without a word it has died: what ran for it may live until its lease has run out.
            is_given_back = bool(await ends)
            work.cancel()
            held = await work
            if is_given_back:
                for name, owner in held.values():
                    with suppress(RPCError):
                        await self._signal(name, GIVE_BACK, owner)
        except (OSError, ValueError, KeyError):
            pass
        finally:
            writer.close()

    async def _call(self, order: Mapping[str, Any], tell: Tell) -> dict[str, tuple[str, str]]:
        """What a call holds when it is over; until then it is renewed."""
        held = {name: (one[0], one[1]) for name, one in order["held"].items()}
        seconds = float(order["seconds"])
        try:
            for name in dict.fromkeys((order["agent"], TOTAL)):
                if name not in held and (got := await self._take(name, seconds, tell)):
                    held[name] = got
            await tell({"held": held})
            while held:
                for name, (which, owner) in list(held.items()):
                    if not await self._renewed(which, owner):
                        held.pop(name)
                        if (got := await self._take(name, seconds, tell)) is not None:
                            held[name] = got
                            await tell({"held": held})
                await asyncio.sleep(seconds / _RENEWALS)
        except asyncio.CancelledError:
            pass
        return held

    async def _renewed(self, which: str, owner: str) -> bool:
        try:
            await self._signal(which, RENEW, owner)
        except RPCError as error:
            return error.status != RPCStatusCode.NOT_FOUND
        return True

    async def _take(self, name: str, seconds: float, tell: Tell) -> tuple[str, str] | None:
        """A permit, waited for; None where nothing limits the agent."""
        async with _Place(self, name, tell):
            while True:
                try:
                    announced = await announced_on(self._client, self._limits)
                    if name not in announced.limits:
                        return None
                    got = await self._taken(announced.free(name), seconds)
                    if got is not None:
                        return got
                    await tell({"ahead": 0})
                    await self._until_one_ends(name, announced)
                except RPCError:
                    await asyncio.sleep(_AGAIN_S)  # the server is waited for, as for heartbeats

    async def _taken(self, free: list[str], seconds: float) -> tuple[str, str] | None:
        owner = os.urandom(8).hex()
        for which in free:
            with suppress(WorkflowAlreadyStartedError):
                await self._start(which, Hold(owner, seconds), WorkflowIDConflictPolicy.FAIL, {})
                return which, owner
        return None

    async def _until_one_ends(self, name: str, announced: Announced) -> None:
        held = [one for one in announced.held if one.startswith(f"permit/{name}/")]
        waits = [asyncio.ensure_future(self._end_of(one)) for one in held]
        try:
            if waits:
                await asyncio.wait(waits, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            # The list is a moment behind, and another may have been quicker.
            await asyncio.sleep(_AGAIN_S / 10)
        finally:
            for one in waits:
                one.cancel()

    async def _end_of(self, which: str) -> None:
        with suppress(WorkflowFailureError, RPCError):
            await self._client.get_workflow_handle(which).result()

    async def enter(self, name: str, tell: Tell) -> object:
        """Wait for the calls of this machine that came before."""
        me, queue = object(), self._queues.setdefault(name, [])
        queue.append(me)
        try:
            async with self._moved:
                while (ahead := queue.index(me)) > 0:
                    await tell({"ahead": ahead})
                    await self._moved.wait()
        except BaseException:
            await self.leave(name, me)
            raise
        return me

    async def leave(self, name: str, me: object) -> None:
        self._queues[name].remove(me)
        async with self._moved:
            self._moved.notify_all()


class _Place:
    """A place in the queue of this machine for one kind of permit."""

    def __init__(self, permits: Permits, name: str, tell: Tell) -> None:
        self._permits = permits
        self._name = name
        self._tell = tell

    async def __aenter__(self) -> None:
        self._me = await self._permits.enter(self._name, self._tell)

    async def __aexit__(self, *_: object) -> None:
        await self._permits.leave(self._name, self._me)


def _teller(writer: asyncio.StreamWriter) -> Tell:
    async def tell(document: Mapping[str, Any]) -> None:
        writer.write(json.dumps(document).encode() + b"\n")
        with suppress(OSError):  # the call is over
            await writer.drain()

    return tell


def listen_below(root: Path) -> socket.socket:
    """Ours alone; the folder's descriptor stands for a path that is too long for a socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    (root / SOCKET).unlink(missing_ok=True)
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = f"/proc/self/fd/{handle}"
        listener.bind(f"{through if os.path.isdir(through) else root}/{SOCKET}")
        os.chmod(root / SOCKET, 0o600)
    finally:
        os.close(handle)
    return listener
