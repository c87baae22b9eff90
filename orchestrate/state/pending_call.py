"""What a visit knows of the next or newest call of its agent: what is set aside, what it waits for.

Both have the names that they have in `state.json`, and are empty where there is nothing.
"""

from __future__ import annotations

from orchestrate.state.sparse_record import SparseRecord


class Reserved(SparseRecord):
    """Dollars and tokens that are set aside for a call, until it has ended."""

    usd: float = 0.0
    tokens: int = 0
    at: float = 0.0
    # What it counts for where the agent does not tell.
    unknown: float | None = None
    unknown_tokens: int | None = None
    # The most that it may use.
    cap: float | None = None
    cap_tokens: int | None = None


class Postponed(SparseRecord):
    """A call that was put off: for a slot of the agent, or until its account may be used again."""

    why: str = ""
    agent: str = ""
    until: float = 0.0
    # How many calls get a slot before this one.
    ahead: int = 0
    since: float = 0.0
