"""The limits at which a run parks that an answer can raise, and the reading of such an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.plan.durations import seconds_of

if TYPE_CHECKING:
    from orchestrate.exits import EndKind

# The limits that a flag raises, with its field; the one of which there is as much again; and the
# end of a usage limit that cannot be believed. What a day allows stands in a file: no answer here
# changes it.
RAISED_BY: dict[EndKind, str] = {
    "max-cost": "max_cost",
    "max-tokens": "max_tokens",
    "max-calls": "max_calls",
    "max-time": "max_time",
    "step-limit": "",
    "quota": "",
}


def read_limit(name: str, typed: str) -> float | None:
    """What was typed as a limit of this kind; None if it is none."""
    try:
        if name == "max_time":
            value = seconds_of(typed)
        elif name == "max_cost":
            value = float(typed.removeprefix("$"))
        else:
            value = int(typed)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
