"""`effect: true`: a step that must not happen twice by itself (a payment, a push, a message)."""

from __future__ import annotations

from typing import Literal

from orchestrate.dialects.lowering import Lowering
from orchestrate.plan.settings import Retry
from orchestrate.source.located import LocatedMap

# One attempt, whatever becomes of it.
ONCE = Retry(attempts=1, delay_s=0.0, when="any")


def has_effect(step: LocatedMap) -> bool:
    return step.get("effect") is True


def lost_rule(step: LocatedMap, key: str = "on_lost") -> Literal["retry", "stop"]:
    """What becomes of a lost attempt: one with an effect waits for a person."""
    rule: Literal["retry", "stop"] = step.get(key, "retry")
    return "stop" if has_effect(step) else rule


def check_effect(work: Lowering, step: LocatedMap, code: str, retries: str, lost: str) -> None:
    """Refuse what would let it happen twice."""
    if not has_effect(step):
        return
    for key in (retries, lost):
        if key in step and step[key] != "stop":
            work.report(
                code, f"'{key}' has no meaning beside effect: true", step, key, on_key=True,
                hint="remove it: such a step has one attempt, and a person decides about the rest",
            )  # fmt: skip
