"""`limits:` of a definition, the same in every dialect, over what the dialect says elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrate.dialects.lowering import Lowering
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.settings import Limits
from orchestrate.record import replace
from orchestrate.source.located import LocatedMap, as_map

_NAMES = {
    "visits": "max_visits",
    "steps": "max_steps",
    "cost_usd": "max_cost",
    "tokens": "max_tokens",
    "time": "max_time",
    "calls": "max_calls",
    "no_progress": "no_progress",
}
_PER_DAY = {"cost_usd": "day_cost", "tokens": "day_tokens", "calls": "day_calls"}


def lower_limits(work: Lowering, usual: Limits, elsewhere: Mapping[str, str]) -> Limits:
    """The usual limits with those that are written; `elsewhere` are the dialect's own places, by
    the key that says the same here, as `guardrails.maxStepVisits`."""
    written = as_map(work.data.get("limits"))
    for key, place in elsewhere.items():
        holder, _, name = place.partition(".")
        if key in written and name in as_map(work.data.get(holder)):
            work.report("E111", f"'{key}' is limited twice: here and by {place}", written, key,
                        on_key=True, hint="keep one of them")  # fmt: skip
    values = {
        _NAMES[key]: seconds_of(value) if key == "time" else value
        for key, value in written.items()
        if key in _NAMES
    }
    per_day = as_map(written.get("per_day"))
    values |= {_PER_DAY[key]: value for key, value in per_day.items() if key in _PER_DAY}
    return replace(usual, **values)


def step_limits(step: LocatedMap) -> dict[str, Any]:
    """What an agent may use in one visit of a step, as fields of its node."""
    written = as_map(step.get("limits"))
    return {"most_cost": written.get("cost_usd"), "most_tokens": written.get("tokens")}
