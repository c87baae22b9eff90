"""The workflow `orchestrate-machine`: what runs find on a machine, which only it can tell.

Its own worker serves it, on the queue of the machine; `fleet doctor` starts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

MACHINE = "orchestrate-machine"
EXAMINE = "orchestrate-examine"
# Programs that do not say their version are waited for.
ANSWER_S = 30.0


@dataclass(frozen=True)
class Inventory:
    """The version of orchestrate, and the programs that were found, with theirs."""

    version: str
    programs: dict[str, str] = field(default_factory=dict)


@workflow.defn(name=MACHINE)
class OrchestrateMachine:
    """One question to a machine."""

    @workflow.run
    async def run(self) -> Inventory:
        found: Inventory = await workflow.execute_activity(
            EXAMINE,
            result_type=Inventory,
            schedule_to_close_timeout=timedelta(seconds=ANSWER_S),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return found
