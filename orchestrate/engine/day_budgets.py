"""What a recipe, or the user with all runs, may use in one calendar day of the user's clock."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.engine.costing import is_of_recipe
from orchestrate.engine.runtime import Runtime
from orchestrate.record import record
from orchestrate.state.budget import OF_USER, Budget
from orchestrate.state.ledger import LedgerEntry
from orchestrate.state.model import Frame, plan_stack


@record
class DayLimit:
    """`recipe` is '' where it is the limit of all the user's runs."""

    recipe: str
    cost: float | None
    tokens: int | None
    calls: int | None

    @property
    def name(self) -> str:
        return (f"{self.recipe}: " if self.recipe else OF_USER) + "limits.per_day"

    @property
    def way_out(self) -> str:
        where = "in the file, then `resume --edited`" if self.recipe else "in your configuration"
        return f"go on tomorrow, or allow more {where}"


def day_limits(rt: Runtime, frame: Frame) -> list[DayLimit]:
    """Those that hold for calls at a frame: of the recipes around it, and the user's."""
    found = []
    for plan_id in dict.fromkeys(plan_stack(frame)):
        limits = rt.store.index.plan(plan_id).limits
        found.append(DayLimit(plan_id, limits.day_cost, limits.day_tokens, limits.day_calls))
    money = rt.rules.money
    found.append(DayLimit("", money.day_cost, money.day_tokens, money.day_calls))
    return [one for one in found if (one.cost, one.tokens, one.calls) != (None, None, None)]


def day_budgets(rt: Runtime, limit: DayLimit, but: str = "") -> Iterator[Budget]:
    """How much of a limit is used today, without the call `but`; read under the ledger's lock
    whenever something is to be set aside."""
    found = [entry for entry in _calls_today(rt, limit.recipe) if entry.call != but]
    settled = [entry for entry in found if entry.is_settled]
    others = [entry for entry in found if not entry.is_settled]
    if limit.cost is not None:
        yield Budget(
            f"{limit.name}.cost_usd", "usd", limit.cost,
            sum(map(rt.rules.money.counted_entry, settled)),
            sum(entry.reserved_usd for entry in others),
            sum(entry.cost_usd is None for entry in settled),
        )  # fmt: skip
    if limit.tokens is not None:
        yield Budget(
            f"{limit.name}.tokens", "tokens", limit.tokens,
            sum(map(rt.rules.money.counted_tokens, settled)),
            sum(entry.reserved_tokens for entry in others),
            sum(not entry.tells_tokens for entry in settled),
        )  # fmt: skip
    if limit.calls is not None:
        yield Budget(f"{limit.name}.calls", "calls", limit.calls, len(found))


def _calls_today(rt: Runtime, recipe: str) -> list[LedgerEntry]:
    workspace = rt.store.state.workspace
    found = rt.ledger.today(rt.now())
    return [e for e in found if not recipe or is_of_recipe(e, recipe, workspace)]
