"""Adds up what agents' turns used and were refused, for a step and for the run (rulings §7)."""

from __future__ import annotations

from typing import Any, TypeVar

from orchestrate.state.denials import add_denials, denials_of
from orchestrate.state.model import Frame, Here, RunState

# What an agent's turn may report.
_TOKENS = ("input_tokens", "output_tokens")
FIGURES = ("cost_usd", *_TOKENS)
_Figure = TypeVar("_Figure", int, float)


def with_spent(result: dict[str, Any], spent: dict[str, Any]) -> dict[str, Any]:
    """The result of a step that was reminded: what both of its turns have used."""
    sums = {
        name: round(spent[name] + result.get(name, 0), 10)
        for name in FIGURES
        if spent.get(name) is not None
    }
    return {**result, **sums} if sums else result


def with_denials(frame: Frame, here: Here, name: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result with what earlier attempts of this visit were denied, too."""
    if not here.attempt:
        return result
    before = denials_of(frame.steps.get(name))
    return {**result, "denials": add_denials(before, denials_of(result))} if before else result


def count_denials(state: RunState, name: str, result: dict[str, Any]) -> None:
    more = [{"step": name, **denial} for denial in denials_of(result)]
    if more:
        state.denials = add_denials(state.denials, more)


def count_costs(state: RunState, here: Here, result: dict[str, Any]) -> None:
    """An agent's turn; the counters that it did not report stay unknown.

    A provider that a workflow declares costs what nobody tells us.
    """
    if "agent" not in result and "provider" not in result:
        return
    if not result.get("billed", True):
        return
    costs = state.costs
    costs.turns += 1
    costs.unreported += result.get("cost_usd") is None
    costs.tokens_unreported += any(result.get(name) is None for name in _TOKENS)
    costs.cost_usd = _added(costs.cost_usd, result.get("cost_usd"))
    costs.input_tokens = _added(costs.input_tokens, result.get("input_tokens"))
    costs.output_tokens = _added(costs.output_tokens, result.get("output_tokens"))
    totals = result.get("session_totals")
    if totals and here.session:
        here.session["totals"] = dict(totals)
    elif totals:
        state.session.totals = dict(totals)


def _added(known: _Figure | None, reported: _Figure | None) -> _Figure | None:
    """The sum of what was reported, without the dust of binary fractions; None if nothing was."""
    if known is None or reported is None:
        return reported if known is None else known
    return round(known + reported, 10)
