"""The workflow `orchestrate-run`: sit; parked? wait for a signal; sit again; end.

It knows nothing of plans, prompts or outputs, so that its history stays as short as the number of
sittings. Whether a sitting is lost is decided here, and only here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, CancelledError, TimeoutType
from temporalio.exceptions import TimeoutError as TimedOut

with workflow.unsafe.imports_passed_through():
    from orchestrate.fleet.protocol import (
        DECIDE,
        END,
        FAULT,
        RESUME,
        SIT,
        WORKFLOW,
        Decision,
        Order,
        Sat,
        Sitting,
        Wish,
        machine_queue,
        pool_queue,
        sitting_key,
    )

# A sitting may take as long as its run does: what limits it is the heartbeat.
_FOR_EVER = timedelta(days=3650)
_ONCE = RetryPolicy(maximum_attempts=1)
# So many sittings in a row may fall without an end of the run's own.
_MOST_FALLS = 4


@workflow.defn(name=WORKFLOW)
class OrchestrateRun:
    """One run: its sittings, one after the other."""

    def __init__(self) -> None:
        self._decisions: deque[Decision] = deque()
        self._decided: set[tuple[str, str, int]] = set()
        self._resume: Wish | None = None
        # 'stop' or 'cancel', until it is done.
        self._end = ""
        self._ended_by = ""
        self._falls = 0
        self._sitting: workflow.ActivityHandle[Sat] | None = None

    @workflow.signal(name=DECIDE)
    def decide(self, decision: Decision) -> None:
        """A gate is decided once; later decisions change nothing."""
        if decision.gate not in self._decided:
            self._decided.add(decision.gate)
            self._decisions.append(decision)

    @workflow.signal(name=RESUME)
    def resume(self, wish: Wish) -> None:
        """Go on with what failed, was stopped or waits."""
        self._resume = wish

    @workflow.signal(name=END)
    def end(self, how: str, by: str) -> None:
        """'stop' or 'cancel'."""
        self._end, self._ended_by = how, by
        if self._sitting is not None:
            # Read by the worker, which only hears that it is to end.
            workflow.upsert_memo({"ends": how})
            self._sitting.cancel()

    @workflow.run
    async def run(self, order: Order) -> Sat:
        number, wish = 0, Wish()
        while True:
            number += 1
            sat = await self._sit(order, number, wish)
            if sat.outcome == "ended" and sat.is_final:
                self._tell(sat)
                return sat
            end, self._end = self._end, ""
            if end == "cancel" and sat.outcome == "nothing" and number == 1:
                # Nothing of it was ever begun.
                sat = replace(sat, status="cancelled", is_final=True)
                self._tell(sat)
                return sat
            if end == "cancel":
                wish = self._cancels(_after(wish, sat))
            elif sat.outcome == "ended" or end == "stop" or self._is_hopeless(sat):
                self._tell(sat)
                wish = await self._next(_after(wish, sat))
                decided = [[*one.gate, one.decision, one.by] for one in wish.decisions]
                workflow.upsert_memo(
                    {"status": "running", "machine": "", "ends": "", "sitting": number + 1,
                     "decided": decided}
                )  # fmt: skip
            else:
                wish = _after(wish, sat)

    def _is_hopeless(self, sat: Sat) -> bool:
        """Does it fall again and again without an end, so that a person has to look?"""
        self._falls = self._falls + 1 if sat.told else 0
        return self._falls >= _MOST_FALLS

    def _tell(self, sat: Sat) -> None:
        """For `runs`, `status` and `wait`, which no worker needs to be alive for."""
        workflow.upsert_memo(
            {"status": sat.status, "machine": sat.machine, "code": sat.code, "told": sat.told,
             "ends": ""}
        )  # fmt: skip

    async def _next(self, undone: Wish) -> Wish:
        """Wait until a client wants the run to go on, or to end for good."""
        # Who said so before has seen an earlier state of it.
        self._resume = None
        self._falls = 0
        await workflow.wait_condition(
            lambda: bool(self._decisions) or self._resume is not None or self._end == "cancel"
        )
        if self._end == "cancel":
            self._end = ""
            return self._cancels(undone)
        decisions = [*undone.decisions, *self._decisions]
        self._decisions.clear()
        return replace(undone, decisions=decisions, flags=undone.flags | self._flags())

    def _cancels(self, undone: Wish) -> Wish:
        return Wish("cancel", by=self._ended_by, kept=undone.kept)

    def _flags(self) -> dict[str, Any]:
        return self._resume.flags if self._resume is not None else {}

    async def _sit(self, order: Order, number: int, wish: Wish) -> Sat:
        """One sitting, wherever it begins; once begun, only that machine may go on with it.

        One machine is awaited from the start if it has what was not published.
        When heartbeats stop, the lease has run out before the time is up: nothing of it is alive
        then. The machine is awaited all the same, because it may know how the sitting ended.
        """
        sitting = Sitting(sitting_key(order.id, number), order, wish)
        machine, is_again = wish.kept, False
        give_up = workflow.time() + order.timing.lost_after
        while True:
            left = give_up - workflow.time()
            if machine and left <= 0:
                return Sat("lost", machine)
            try:
                return await self._attempt(replace(sitting, is_again=is_again), machine, left)
            except ActivityError as error:
                cause = error.cause
                if isinstance(cause, CancelledError):
                    return Sat("nothing")  # it was ended before a worker took it
                if not isinstance(cause, TimedOut):
                    return Sat("ended", machine, "failed", FAULT, told=_told_by(cause))
                if cause.type == TimeoutType.SCHEDULE_TO_START:
                    return Sat("lost", machine)
                heard = _machine_of(cause)
                if heard:
                    machine, is_again = heard, True
                    give_up = workflow.time() + order.timing.lost_after
                elif not is_again:
                    return Sat("nothing")  # it was never announced: nothing has started

    async def _attempt(self, sitting: Sitting, machine: str, left: float) -> Sat:
        order = sitting.order
        queue = machine_queue(machine) if machine else pool_queue(order.pool)
        self._sitting = workflow.start_activity(
            SIT,
            sitting,
            result_type=Sat,
            task_queue=queue,
            start_to_close_timeout=_FOR_EVER,
            schedule_to_start_timeout=timedelta(seconds=left) if machine else None,
            heartbeat_timeout=timedelta(seconds=order.timing.heartbeat_timeout),
            retry_policy=_ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        if self._end:
            workflow.upsert_memo({"ends": self._end})
            self._sitting.cancel()
        try:
            return await self._sitting
        finally:
            self._sitting = None


def _after(wish: Wish, sat: Sat) -> Wish:
    """The same wish, unless it was done."""
    match sat.outcome:
        case "ended":
            return Wish(kept=sat.machine if sat.is_kept else "")
        case "lost":
            return replace(wish, lost=sat.machine, kept="")
        case _:
            return wish


def _told_by(cause: BaseException | None) -> str:
    """Of a worker that has failed in a way of its own; the run waits until a person resumes it."""
    return f"the worker failed: {cause}"


def _machine_of(timeout: TimedOut) -> str:
    """The machine that was heard of last; the error itself names none."""
    details: Any = timeout.last_heartbeat_details
    return str(details[0]) if details else ""
