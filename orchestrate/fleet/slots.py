"""The slots of a worker: one number for all of its pools, and for what it found at its start.

The SDK asks for a permit before it polls, once for each queue. So that a queue on which nothing
comes does not keep the slot of another, a permit to poll takes no slot: a task does. Two queues may
then bring a task each for the last slot, and the second one is handed back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from orchestrate.fleet.seat import WAITS, WANTS, Seat

# Between two looks at whether a sitting only waits.
_LOOK_S = 0.2


class _Permit(SlotPermit):
    """To poll one queue once."""

    def __init__(self, queue: str) -> None:
        super().__init__()
        self.queue = queue


class Slots(CustomSlotSupplier):
    """Counts sittings, whichever queue they came from; used in the worker's event loop only."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self._polling: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def take(self, queue: str) -> bool:
        """A task has come from a queue: is there a slot for it?"""
        self._polling[queue] -= 1
        if self._used >= self.most:
            self._wake()
            return False
        self._used += 1
        return True

    def take_up(self) -> None:
        """A sitting was found at work: it has its slot, even where fewer are given out now."""
        self._used += 1

    @asynccontextmanager
    async def used_by(self, seat: Seat, *, has_slot: bool = True) -> AsyncIterator[None]:
        """For as long as a sitting is held; others have its slot while it only waits for items."""
        use = _Use(self, seat, has_slot)
        lends = asyncio.ensure_future(use.lend())
        try:
            yield
        finally:
            lends.cancel()
            with suppress(asyncio.CancelledError):
                await lends
            use.end()

    def take_again(self) -> bool:
        """A sitting goes on whose slot others had: is one free?"""
        if self._used >= self.most:
            return False
        self._used += 1
        return True

    def give(self) -> None:
        self._used -= 1
        self._wake()

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        while self._used + self._polling[ctx.task_queue] >= self.most:
            self._changed.clear()
            await self._changed.wait()
        self._polling[ctx.task_queue] += 1
        return _Permit(ctx.task_queue)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:  # noqa: ARG002
        return None  # of tasks that come without a poll; there are none

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        pass

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """From a thread of the SDK; a permit with which nothing came is given back."""
        if ctx.slot_info is None and isinstance(ctx.permit, _Permit):
            self._loop.call_soon_threadsafe(self._give_back, ctx.permit.queue)

    def _give_back(self, queue: str) -> None:
        self._polling[queue] -= 1
        self._wake()

    def _wake(self) -> None:
        self._changed.set()


class _Use:
    """The slot of a sitting, which its engine gives back and wants again by files of its seat."""

    def __init__(self, slots: Slots, seat: Seat, has_slot: bool) -> None:
        self._slots = slots
        self._waits, self._wants = seat.states / WAITS, seat.states / WANTS
        # A sitting that was asked for again has none.
        self._may_have = self._has = has_slot

    async def lend(self) -> None:
        while True:
            if self._has and self._waits.exists():
                self._has = False
                self._slots.give()
            elif self._wants.exists() and (self._has or not self._may_have or self._take()):
                self._wants.unlink(missing_ok=True)
            elif self._may_have and not self._has and not self._is_asked():
                # What an earlier sitting has left there was taken for this one's.
                self._has = True
                self._slots.take_up()
            await asyncio.sleep(_LOOK_S)

    def _is_asked(self) -> bool:
        """In the order in which one becomes the other."""
        return self._waits.exists() or self._wants.exists()

    def end(self) -> None:
        if self._has:
            self._has = False
            self._slots.give()

    def _take(self) -> bool:
        self._has = self._slots.take_again()
        return self._has
