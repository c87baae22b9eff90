"""Holds sittings on this machine: announced before they begin, kept alive by heartbeats, reported.

Every heartbeat is a call with an answer, about an activity that is named by its id: who restarts
can go on with it. An answer renews the lease of the engine; without answers the lease runs out, and
the keeper ends the engine before another machine takes it to be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle, Client
from temporalio.service import RPCError, RPCStatusCode

from orchestrate.errors import OrchestrateError
from orchestrate.execute.base import Exit, Lost, NotStarted
from orchestrate.fleet.engine import Engine
from orchestrate.fleet.notes import Note, SittingNotes
from orchestrate.fleet.protocol import FAULT, Sat
from orchestrate.state.clock import since_boot

_T = TypeVar("_T")
# A report is tried for as long as it takes; between two tries.
_PAUSE_S = 1.0


class Gone(Exception):
    """The server does not wait for this activity any more."""


class Holder:
    """Everything that this machine holds sittings with."""

    def __init__(self, client: Client, root: Path, machine: str) -> None:
        self._client = client
        self.root = root
        self.machine = machine
        self.notes = SittingNotes(root)
        self.leaving = asyncio.Event()
        # Each sitting blocks one thread, and uses another one now and then.
        self._threads = ThreadPoolExecutor(max_workers=512, thread_name_prefix="sitting")

    async def hold(self, note: Note, *, is_found: bool) -> None:
        """Hold a sitting to its end and report it, unless the server waits for that no longer.

        `is_found`: it was noted by an earlier process of this worker.
        """
        handle = self._client.get_async_activity_handle(
            workflow_id=note.workflow_id, run_id=note.workflow_run, activity_id=note.activity
        )
        held = _Held(self, note, handle)
        is_forgotten = False
        try:
            try:
                if not is_found:
                    await self.call(self.notes.add, note)
                sat = await held.sit(is_new=not (is_found or note.sitting.is_again))
            except Gone:
                raise
            except Exception as error:  # noqa: BLE001 - the server waits, whatever is wrong here
                await held.let_go()
                sat = _refused(error, self.machine)
            await held.report(sat)
            is_forgotten = sat.is_final
        except Gone:
            pass
        await self.call(self.notes.remove, note)
        await self.call(lambda: held.engine.close(is_over=held.is_over))
        if is_forgotten:
            await self.call(held.engine.forget)

    async def call(self, function: Callable[..., _T], *given: Any) -> _T:
        """Let a thread do what blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *given)

    async def wish_of(self, note: Note) -> str:
        """'stop' or 'cancel': what a cancelled activity does not say is in the memo."""
        handle = self._client.get_workflow_handle(note.workflow_id, run_id=note.workflow_run)
        found = await handle.describe()
        return str(await found.memo_value("ends", "") or "stop")


class _Held:
    """One sitting, while this worker holds it."""

    def __init__(self, holder: Holder, note: Note, handle: AsyncActivityHandle) -> None:
        self._holder = holder
        self._note = note
        self._handle = handle
        self._timing = note.sitting.order.timing
        self._how = ""
        # When the lease of what was started runs out, since the boot; 0 if nothing was.
        self._lease_ends = 0.0
        self.engine = Engine(note.sitting, holder.root, holder.machine)
        self.is_over = False
        self._ending: asyncio.Task[None] | None = None

    async def sit(self, *, is_new: bool) -> Sat:
        """Begin it, or go on with what is there."""
        call = self._holder.call
        sent = since_boot()
        if is_new:
            # Before anything begins, the server knows where it is.
            await self._beat(sent, must_answer=True)
        found = await call(self.engine.find)
        if isinstance(found, NotStarted):
            if not is_new:
                return Sat("nothing", self._holder.machine)
            self._lease_ends = sent + self._timing.lease
            await call(self.engine.start, self._lease_ends)
        else:
            self._lease_ends = since_boot() + self._timing.lease  # at the latest
        ended = found if isinstance(found, Exit | Lost) else await self._watch()
        self.is_over = True
        if self._ending is not None:
            await self._ending
        return await call(self.engine.result, ended, self._how)

    async def _watch(self) -> Exit | Lost:
        """Beat until it ends."""
        waits = asyncio.ensure_future(self._holder.call(self.engine.wait))
        leaves = asyncio.ensure_future(self._holder.leaving.wait())
        try:
            while True:
                sent = since_boot()
                await self._beat(sent)
                if self._holder.leaving.is_set() and not self._how:
                    self._end("leave")
                pause = max(0.0, sent + self._timing.beat - since_boot())
                watched = {waits} if leaves.done() else {waits, leaves}
                await asyncio.wait(watched, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if waits.done():
                    return waits.result()
        finally:
            leaves.cancel()
            waits.add_done_callback(_look_away)

    async def _beat(self, sent: float, *, must_answer: bool = False) -> None:
        """Say where the sitting is; an answer lets it go on for another lease from then."""
        limit = timedelta(seconds=self._timing.beat)
        try:
            await self._handle.heartbeat(self._holder.machine, rpc_timeout=limit)
        except AsyncActivityCancelledError:
            if must_answer:
                await self.report(Sat("nothing", self._holder.machine))
                raise Gone from None
            if not self._how:
                self._end(await self._wished())
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                # The lease is not renewed any more; another activity may ask for the sitting.
                raise Gone from error
            if must_answer:
                raise Gone from error
            return
        if not must_answer:
            self._lease_ends = max(self._lease_ends, sent + self._timing.lease)
            await self._holder.call(self.engine.renew, sent + self._timing.lease)

    async def _wished(self) -> str:
        try:
            return await self._holder.wish_of(self._note)
        except RPCError:
            return "stop"

    async def let_go(self) -> None:
        """What we cannot follow any more is ended, or its lease runs out, before others go on."""
        if not self._lease_ends or self.is_over:
            return
        with suppress(OrchestrateError, OSError):
            await self._holder.call(self.engine.end, "stop")
            await self._holder.call(self.engine.wait)
            return
        await asyncio.sleep(self._lease_ends + self._timing.grace - since_boot())

    def _end(self, how: str) -> None:
        self._how = how
        self._ending = asyncio.ensure_future(self._holder.call(self.engine.end, how))

    async def report(self, sat: Sat) -> None:
        """Complete the activity; a server that does not answer is waited for."""
        while True:
            try:
                await self._handle.complete(sat)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise Gone from error
                await asyncio.sleep(_PAUSE_S)
            else:
                return


def _look_away(waits: asyncio.Future[Any]) -> None:
    """Of a sitting that we do not hold any more."""
    if not waits.cancelled():
        waits.exception()


def _refused(error: Exception, machine: str) -> Sat:
    """What could not be done on this machine."""
    match error:
        case OrchestrateError():
            code, told = error.exit_code, error.message
        case OSError():
            code, told = FAULT, str(error)
        case _:
            code, told = FAULT, f"the worker failed: {error!r}"
    return Sat("ended", machine, "failed", code, told=f"{machine}: {told}")
