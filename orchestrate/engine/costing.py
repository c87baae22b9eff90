"""What calls of agents are taken to cost where that is not known: as earlier ones, or a guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Literal

from orchestrate.record import field, record
from orchestrate.state.budget import counted_for
from orchestrate.state.ledger import LedgerEntry
from orchestrate.state.result import Costs

# How far back earlier calls are looked for, and how many of a step count.
LOOK_BACK_S = 30 * 86_400.0
_MOST_EARLIER = 200
_OFTEN = 0.95
_MILLION = 1_000_000
_BUILT_IN = "catalogue:"


@record
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float


@record
class MoneyRules:
    """What the user's configuration says of costs, and what all runs of a day may use."""

    guess_usd: float = 0.25
    guess_tokens: int = 100_000
    unknown: Literal["count", "refuse", "allow"] = "count"
    prices: Mapping[str, Price] = field(default_factory=dict)
    day_cost: float | None = None
    day_tokens: int | None = None
    day_calls: int | None = None

    @property
    def refuses_unknown(self) -> bool:
        """Is no call made after one that did not report its cost, whatever limits hold?"""
        return self.unknown == "refuse"

    def computed(
        self, model: str | None, input_tokens: int | None, output_tokens: int | None
    ) -> float | None:
        """The cost of a call by the prices of its tokens; None where one of them is unknown."""
        price = self.prices.get(model or "")
        if price is None or input_tokens is None or output_tokens is None:
            return None
        usd = (input_tokens * price.input + output_tokens * price.output) / _MILLION
        return round(usd, 10)

    def counted(self, costs: Costs) -> tuple[float, int]:
        """The dollars and tokens that calls count for in a budget, those included that did not
        report theirs."""
        if self.unknown == "allow":
            return costs.cost_usd or 0.0, costs.tokens
        usd, tokens = counted_for(costs)
        usd += (costs.unreported - costs.counted) * self.guess_usd
        tokens += (costs.tokens_unreported - costs.tokens_counted) * self.guess_tokens
        return usd, tokens

    def counted_entry(self, entry: LedgerEntry) -> float:
        """The dollars of one call in the ledger that is settled."""
        if entry.cost_usd is not None or self.unknown == "allow":
            return entry.cost_usd or 0.0
        return self.guess_usd if entry.counted_usd is None else entry.counted_usd

    def counted_tokens(self, entry: LedgerEntry) -> int:
        """Its tokens; one that told only a part of them counts for that at least."""
        if entry.tells_tokens or self.unknown == "allow":
            return entry.tokens
        counted = self.guess_tokens if entry.counted_tokens is None else entry.counted_tokens
        return max(counted, entry.tokens)


@record
class EarlierCalls:
    """What calls like the next one have cost: those of the step, and the recipe's last one."""

    own: tuple[float, ...] = ()
    last: float | None = None
    # The tokens that nineteen of twenty calls of the step, and the recipe's last one, have taken.
    tokens: int = 0
    # Has a call of the step ended, whatever it told?
    is_known: bool = False

    @property
    def often(self) -> float | None:
        """What nineteen of twenty calls of the step did not exceed."""
        return percentile(self.own, _OFTEN) if self.own else None

    def need_tokens(self, rules: MoneyRules) -> tuple[int, int]:
        """The tokens that are set aside for the next call, none where they cannot be foreseen; and
        those that it counts for if it does not tell them."""
        counted = 0 if rules.unknown == "allow" else self.tokens or rules.guess_tokens
        return self.tokens or (counted if self.is_known else 0), counted

    def need(self, cap: float | None, guess: float) -> float:
        """What is set aside for the next call."""
        known = [usd for usd in (cap, self.often, self.last) if usd is not None]
        return max(known) if known else guess


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of them does not exceed; there is at least one."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)), 1) - 1]


def is_of_recipe(entry: LedgerEntry, recipe: str, workspace: str) -> bool:
    """Is it a call of this recipe? Files of two workspaces are two; the built-in ones are one."""
    is_here = entry.workspace == workspace or recipe.startswith(_BUILT_IN)
    return is_here and recipe in entry.recipes


def earlier_calls(
    entries: Iterable[LedgerEntry], recipe: str, step: str, workspace: str
) -> EarlierCalls:
    """What calls of a step that are settled have used, and the recipe's last, in these weeks."""
    settled = [e for e in entries if e.is_settled and is_of_recipe(e, recipe, workspace)]
    settled = [e for e in settled if not e.is_turned_away]
    of_step = [e for e in settled if e.step == step and e.recipes[-1] == recipe]
    own = [e.cost_usd for e in of_step if e.cost_usd is not None][-_MOST_EARLIER:]
    costs = [e.cost_usd for e in settled if e.cost_usd is not None]
    tokens = [e.tokens for e in of_step if e.tells_tokens][-_MOST_EARLIER:]
    tokens = [round(percentile(tokens, _OFTEN))] if tokens else []
    tokens += [e.tokens for e in settled if e.tells_tokens][-1:]
    last = costs[-1] if costs else None
    return EarlierCalls(tuple(own), last, max(tokens, default=0), bool(of_step))
