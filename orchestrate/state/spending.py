"""Adds up what agents' turns used and were refused, for a step and for the run (rulings §7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrate.record import replace
from orchestrate.state.denials import add_denials
from orchestrate.state.model import Frame, Here, RunState
from orchestrate.state.result import StepResult

# What an agent's turn may report.
_FIGURES = ("cost_usd", "input_tokens", "output_tokens")


def spent_in(turn: StepResult) -> dict[str, Any]:
    """The figures that a turn reported."""
    return turn.only(*_FIGURES).to_json()


def with_spent(result: StepResult, spent: Mapping[str, Any]) -> StepResult:
    """The result of a step that was reminded: what both of its turns have used."""
    own = spent_in(result)
    sums = {
        name: round(spent[name] + own.get(name, 0), 10)
        for name in _FIGURES
        if spent.get(name) is not None
    }
    return result | StepResult.from_json(sums)


def with_denials(frame: Frame, here: Here, name: str, result: StepResult) -> StepResult:
    """The result with what earlier attempts of this visit were denied, too."""
    before = frame.steps.get(name) if here.attempt else None
    if before is None or not before.denials:
        return result
    return result | StepResult(denials=add_denials(before.denials, result.denials))


def count_denials(state: RunState, name: str, result: StepResult) -> None:
    if result.denials:
        more = tuple(replace(denial, step=name) for denial in result.denials)
        state.denials = add_denials(state.denials, more)


def count_costs(state: RunState, here: Here, result: StepResult) -> None:
    """An agent's turn; the counters that it did not report stay unknown.

    A provider that a workflow declares costs what nobody tells us.
    """
    if not result.is_turn or not result.billed:
        return
    state.costs = state.costs.with_turn(result)
    totals = result.session_totals
    if totals and here.session:
        here.session["totals"] = dict(totals)
    elif totals:
        state.session.totals = dict(totals)
