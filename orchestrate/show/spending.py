"""What a run's agents have used, in words: dollars where they are reported, else tokens."""

from __future__ import annotations

from orchestrate.plan.visible import plural
from orchestrate.state.budget import Budget
from orchestrate.state.result import Costs
from orchestrate.state.times import duration


def cost_words(costs: Costs) -> str:
    """`$0.0500 in 3 agent calls; 2 did not report theirs`; what prices of tokens gave is named."""
    calls = plural(costs.turns, "agent call")
    if costs.cost_usd is None:
        return f"unknown ({calls}, none reported it)"
    more = f"; {costs.unreported} did not report theirs" if costs.unreported else ""
    priced = f"; {costs.computed} computed from prices" if costs.computed else ""
    return f"${costs.cost_usd:.4f} in {calls}{more}{priced}"


def budget_words(budget: Budget) -> str:
    """`limits.cost_usd: $0.80 of $1.00 spent, $0.20 reserved`."""
    return f"{budget.limit}: {budget.words}"


def token_words(costs: Costs) -> str:
    """`2,000 in, 100 out`; '' where the dollars say it all, or no tokens were reported."""
    if not costs.unreported:
        return ""
    read, written = costs.input_tokens, costs.output_tokens
    if read is None and written is None:
        return ""
    silent = costs.tokens_unreported
    more = f" ({plural(silent, 'call')} did not report them)" if silent else ""
    return f"{_count(read)} in, {_count(written)} out{more}"


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def reused_words(steps: int, saved_usd: float | None, saved_ms: int, from_run: str = "") -> str:
    """`14 steps from before the edit, which had cost $3.1000 and taken 41 min`."""
    cost = "" if saved_usd is None else f"cost ${saved_usd:.4f} and "
    of = f"of run {from_run}" if from_run else "from before the edit"
    return f"{plural(steps, 'step')} {of}, which had {cost}taken {duration(saved_ms)}"
