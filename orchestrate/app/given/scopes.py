"""The scope of values that were written as constants."""

from __future__ import annotations

from typing import Any

from orchestrate.engine.evaluate import evaluate
from orchestrate.plan.nodes import Plan


class ConstantScope:
    """Nothing can be looked up: a context and an agent's settings are constants."""

    def look_up(self, path: tuple[str, ...]) -> Any:
        raise AssertionError(f"a constant cannot refer to {path}")


def starting_values(plan: Plan) -> dict[str, Any]:
    """What the file itself gives: the defaults of its inputs, and its context."""
    values: dict[str, Any] = evaluate(plan.context, ConstantScope())
    return values
