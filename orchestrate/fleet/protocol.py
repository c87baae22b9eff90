"""What client, workflow and worker say to each other: names on the server, and typed payloads.

The workflow's sandbox imports this module again and again, so it imports the standard library only.
A sitting is one activity: the engine at work on a run in a seat. Its key names it for ever, on the
server and at the keeper of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

PROTOCOL = 2
WORKFLOW = "orchestrate-run"
SIT = "orchestrate-sit"
# The signals of a run.
DECIDE = "decide"
RESUME = "resume"
END = "end"
# What a run is left with whose worker failed in a way of its own, as for anything of the machine.
FAULT = 5

Status = Literal["running", "paused", "completed", "failed", "cancelled"]
# How a sitting ended: the engine came to an end; it is to go on elsewhere by itself; nothing was
# started; all slots of the machine were taken; the machine was not heard of any more.
Outcome = Literal["ended", "moves", "nothing", "busy", "lost"]
Verb = Literal["go_on", "cancel"]


def pool_queue(pool: str) -> str:
    return f"pool:{pool}"


def machine_queue(machine: str) -> str:
    return f"machine:{machine}"


def sitting_key(run: str, number: int) -> str:
    return f"{run}/sit:{number}"


@dataclass(frozen=True)
class Timing:
    """Seconds: lease, grace, beat, heartbeat timeout, and how long a silent machine is awaited."""

    lease: float = 60
    grace: float = 20
    beat: float = 10
    heartbeat_timeout: float = 110
    lost_after: float = 600


@dataclass(frozen=True)
class Order:
    """A run as it was submitted, or an item of one that is at work: `item` is its frame's key."""

    run: str
    pool: str
    remote: str
    mirror: str
    inside: str
    publish: str
    file: str
    text: str | None = None
    flags: dict[str, Any] = field(default_factory=dict)
    prepare: list[str] = field(default_factory=list)
    timing: Timing = Timing()
    is_sha256: bool = False
    protocol: int = PROTOCOL
    item: str = ""

    @property
    def id(self) -> str:
        """What its workflow is called."""
        return f"{self.run}/{self.item}" if self.item else self.run


@dataclass(frozen=True)
class Decision:
    """What a person decided about one visit of a gate."""

    frame: str
    node: str
    visit: int
    decision: Literal["approved", "denied"]
    by: str
    message: str = ""

    @property
    def gate(self) -> tuple[str, str, int]:
        return self.frame, self.node, self.visit


@dataclass(frozen=True)
class Wish:
    """What the next sitting is to do.

    `lost`: the machine with which an earlier one was lost; `kept`: the one that could not publish
    what an earlier one has made there.
    """

    verb: Verb = "go_on"
    decisions: list[Decision] = field(default_factory=list)
    flags: dict[str, Any] = field(default_factory=dict)
    by: str = ""
    lost: str = ""
    kept: str = ""


@dataclass(frozen=True)
class Sitting:
    """A sitting to be held; `is_again`: it was begun, and only its own machine may know of it."""

    key: str
    order: Order
    wish: Wish
    is_again: bool = False


@dataclass(frozen=True)
class Sat:
    """How a sitting went; `told` is for people: what the engine said last, or why nothing began.

    `is_kept`: what it has made is on its machine only.
    """

    outcome: Outcome
    machine: str = ""
    status: Status = "paused"
    code: int = 0
    is_final: bool = False
    told: str = ""
    is_kept: bool = False
