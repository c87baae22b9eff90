"""Events around the calls of agents: sessions, money that is set aside, waits, limits near."""

from __future__ import annotations

from typing import Literal

from orchestrate.record import record


@record
class CostReserved:
    """Money is set aside for an agent's next call, until the end of that says what it has cost.

    `unknown_usd` and `unknown_tokens` are what it counts for if it does not say; `cap_usd` is what
    the agent's program itself may spend, where it can be held to that; `tokens` are set aside as
    dollars are, and with more than `cap_tokens` the call is ended.
    `given_back`: the call is not made, at least not now, and what was set aside for it is free.
    """

    frame: str
    node: str
    visit: int
    attempt: int
    at: float
    usd: float
    unknown_usd: float = 0.0
    cap_usd: float | None = None
    tokens: int = 0
    given_back: bool = False
    cap_tokens: int | None = None
    unknown_tokens: int = 0


@record
class CallWaits:
    """A call of an agent is put off: its account's quota is used up until `until`, or all slots
    are taken that the user has for its agent, and `ahead` calls came before it."""

    frame: str
    node: str
    visit: int
    at: float
    why: Literal["quota", "slot"]
    agent: str
    until: float = 0.0
    ahead: int = 0


@record
class LimitNear:
    """Four fifths of a limit are used up; said once of each, and again of one that was raised.

    `most` is how far it goes; `day` is the day of one that holds for a day.
    """

    at: float
    limit: str
    words: str
    most: float = 0
    day: str = ""

    @property
    def key(self) -> str:
        return f"{self.limit} {self.most:g} {self.day}".rstrip()


@record
class SessionSeen:
    """The agent's session has this id now; the next turn resumes it.

    It is the run's own session, or that of one visit of a step. `is_own`: this run has begun it.
    """

    at: float
    session: str
    agent: str = ""
    frame: str = ""
    node: str = ""
    visit: int = 0
    is_own: bool = False


@record
class SessionChosen:
    """The next turn starts a new session, under this id if we choose ids; the old one is left.

    It is the run's own session, or that of one visit of a step.
    """

    at: float
    session: str | None
    agent: str = ""
    frame: str = ""
    node: str = ""
    visit: int = 0
    # It is to begin as a copy of this one, of another run; or, if it cannot, told what stands.
    fork_of: str = ""
    is_forkable: bool = True
