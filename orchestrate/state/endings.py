"""How a run has stopped, as its state file has it."""

from __future__ import annotations

from typing import Any

from orchestrate.exits import Ending, end, older_end
from orchestrate.record import field_names


def encoded_ending(ending: Ending) -> list[Any]:
    return [getattr(ending, name) for name in field_names(ending)]


def ending_in(document: dict[str, Any]) -> Ending | None:
    """How the run of a state file has stopped; None if it has not."""
    written = document["engine"]["ending"]
    if document["status"] == "cancelled":
        # Before 0.2 a run that was cancelled without its definition kept the engine's part as it
        # was.
        return end("cancelled", document["reason"])
    if written is None:
        return None
    status, reason, code, *more = written
    return Ending(status, reason, code, *(more or [older_end(status, reason, code)]))
