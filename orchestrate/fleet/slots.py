"""The slots of a worker: one number for all of its pools, and for what it found at its start.

The SDK asks for a permit before it polls, once for each queue. So that a queue on which nothing
comes does not keep the slot of another, a permit to poll takes no slot: a task does. Two queues may
then bring a task each for the last slot, and the second one is handed back.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)


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
