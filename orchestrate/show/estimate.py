"""What a run may take before it starts, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.plan.visible import plural, visible


def estimate_lines(estimate: dict[str, Any]) -> Iterator[str]:
    """The worst case by agent and model, and what earlier runs have cost."""
    worst, expected = estimate["worst"], estimate["expected"]
    if not worst["by_agent"]:
        yield "estimate: no agent is asked"
        return
    cost = "" if worst["cost_usd"] is None else f", ${worst['cost_usd']:.2f}"
    yield f"at worst:  {_calls(worst['calls'])}{cost}"
    for one in worst["by_agent"]:
        model = "its own model" if one["model"] is None else visible(one["model"])
        yield f"  {visible(one['agent'])}, {model}: {_calls(one['calls'])}"
    if expected["runs"]:
        yield (
            f"expected:  ${expected['usual_usd']:.2f}, nineteen times of twenty at most "
            f"${expected['p95_usd']:.2f} (by {plural(expected['runs'], 'earlier run')})"
        )
    else:
        guess = f"${estimate['guess_usd']:.2f}"
        yield f"expected:  not known, without an earlier run; a call is taken to cost {guess}"


def _calls(calls: int | None) -> str:
    return "calls without bound" if calls is None else plural(calls, "call")
