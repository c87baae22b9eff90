"""The budgets of a run as every reader shows them: spent, reserved, unknown, limit, and what the
next call would need where that has parked the run."""

from __future__ import annotations

from typing import Any

from orchestrate.state.budget import Budget, budgets_at, counted_for, step_budgets
from orchestrate.state.model import Index, RunState, frames_below
from orchestrate.state.spending import reserved_below


def budgets_of(state: RunState, index: Index | None, now: float) -> list[Budget]:
    """The run's, those of the calls and steps it stands at, and the one that has parked it.

    A day's is among them only where it has parked the run: the next call may change it.
    """
    found: dict[str, Budget] = {}
    if index is not None:
        for frame in frames_below(state.root):
            if frame.here is None and frame.parent is not None:
                continue
            found |= {one.limit: one for one in budgets_at(index, state, frame, now)}
            if frame.here is not None:
                own = step_budgets(index, frame, frame.here.used)
                found |= {one.limit: one for one in own}
    reserved = reserved_below(state.root)
    if reserved and "limits.cost_usd" not in found:
        costs = state.costs
        found["costs"] = Budget("costs", "usd", None, counted_for(costs)[0], reserved,
                                costs.unreported)  # fmt: skip
    parked = state.ending.budget if state.ending is not None else {}
    if "unit" in parked:
        found[parked["limit"]] = Budget(**parked)
    return list(found.values())


def budgets_document(state: RunState, index: Index | None, now: float) -> dict[str, Any]:
    """`budgets` as `--json` has them; nothing where there are none."""
    found = [one.to_json() for one in budgets_of(state, index, now)]
    return {"budgets": found} if found else {}
