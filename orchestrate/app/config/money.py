"""What the configuration says of money: guesses, unknown costs, prices, the user's day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.engine.costing import MoneyRules, Price

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config


def money_rules(config: Config) -> MoneyRules:
    """The rules for the calls of all runs, as the configuration says now."""
    costs = config.values.get("costs") or {}
    per_day = (config.values.get("limits") or {}).get("per_day") or {}
    prices = {model: Price(**price) for model, price in (costs.get("prices") or {}).items()}
    own = ("guess_usd", "guess_tokens", "unknown")
    return MoneyRules(
        **{name: costs[name] for name in own if name in costs},
        prices=prices,
        day_cost=per_day.get("cost_usd"),
        day_tokens=per_day.get("tokens"),
        day_calls=per_day.get("calls"),
    )
