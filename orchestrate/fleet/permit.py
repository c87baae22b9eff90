"""The workflow `orchestrate-permit`: one place among those that may use an account at once.

It is over when its holder gives it back, or has not renewed it for so long that whatever ran under
it was ended by its keeper. Any worker of the namespace serves it, so that the timer outlives the
machine of the holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow

PERMIT = "orchestrate-permit"
RENEW = "renew"
GIVE_BACK = "give-back"
# Served by every worker, whatever its pools.
PERMITS_QUEUE = "permits"


@dataclass(frozen=True)
class Hold:
    """Who holds it, by a name of its own, and for how many seconds without a word."""

    owner: str
    seconds: float


@workflow.defn(name=PERMIT)
class OrchestratePermit:
    """A permit, or the limits that a worker announces: both lapse unless they are renewed."""

    def __init__(self) -> None:
        self._renewed: set[str] = set()
        self._given_back: set[str] = set()

    @workflow.signal(name=RENEW)
    def renew(self, owner: str) -> None:
        """It is still held. The word of an earlier holder counts for nothing."""
        self._renewed.add(owner)

    @workflow.signal(name=GIVE_BACK)
    def give_back(self, owner: str) -> None:
        """It is free again."""
        self._given_back.add(owner)

    @workflow.run
    async def run(self, hold: Hold) -> None:
        while hold.owner not in self._given_back:
            self._renewed.clear()
            try:
                await workflow.wait_condition(
                    lambda: hold.owner in self._renewed | self._given_back,
                    timeout=timedelta(seconds=hold.seconds),
                )
            except TimeoutError:
                if hold.owner not in self._renewed:
                    return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(hold)
