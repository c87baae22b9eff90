"""A call waits for one of the user's slots for its agent (`limits.concurrent`), first come, first
served: before it begins, so that neither its time nor its silence counts meanwhile. On a worker of
a fleet it waits for one of the fleet's permits, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrate.engine.faults import Halted
from orchestrate.engine.step import Step
from orchestrate.execute.base import Job
from orchestrate.record import replace
from orchestrate.state.events import CallWaits
from orchestrate.state.permits import Permit, draw_permit
from orchestrate.state.slots import TOTAL, Ticket

# How often a call that waits looks whether it is its turn: a look costs a tenth of a millisecond.
_LOOK_EVERY_S = 0.5
# Set for an agent's program: a run that it starts itself works within its slot. Otherwise each
# would wait for the other.
SLOT = "ORCHESTRATE_SLOT"


@contextmanager
def slot_for(step: Step, agent: str, *, is_needed: bool) -> Iterator[Ticket | None]:
    """The slot for a call, waited for; None where nothing limits how many may run at once."""
    if not is_needed or step.rt.environment.get(SLOT):
        yield None
        return
    limits = step.rt.rules.slots
    ticket = step.rt.queue.draw(agent) if agent in limits or TOTAL in limits else None
    permit = draw_permit(step.rt.store.state.settings.get("seat") or {}, agent)
    try:
        for place in (ticket, permit):
            if place is not None:
                _wait(step, agent, place)
        yield ticket
    finally:
        for place in (permit, ticket):
            if place is not None:
                place.release()


def _wait(step: Step, agent: str, place: Ticket | Permit) -> None:
    rt, told = step.rt, -1
    while (ahead := place.ahead()) is not None:
        if ahead != told:
            told, at = ahead, rt.now()
            rt.store.record(CallWaits(step.frame.key, step.node.id, step.here.visit, at, "slot",
                                      agent, ahead=ahead))  # fmt: skip
            rt.store.checkpoint()
        if step.rest(_LOOK_EVERY_S):
            raise Halted


def with_slot(job: Job, agent: str, slot: Ticket | None) -> Job:
    """The job of an agent's program that holds the slot itself while it runs."""
    if slot is None:
        return job
    return replace(job, slot=str(slot.path), env={**job.env, SLOT: agent})
