"""How plans give up, in the words that all dialects use."""

from __future__ import annotations

from orchestrate.plan.nodes import Abort

# What a machine's step came to whose check still fails after the last round.
CHECK_FAILED = "check-failed"
# What an agent says that found none of the other outcomes true.
OTHER = "other"


def step_failed(name: str) -> Abort:
    return Abort("failed", f"step '{name}' failed")


def step_lost(name: str) -> Abort:
    return Abort("lost", f"step '{name}' was lost")
