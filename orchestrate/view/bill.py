"""What calls of agents have cost, summed up from the user's ledger.

What a call did not report is unknown, never zero: such calls are counted apart, with what budgets
have counted for them. What is set aside for calls that are not settled yet is reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from orchestrate.errors import OrchestrateError
from orchestrate.record import field, mutable_record
from orchestrate.state.ledger import LedgerEntry
from orchestrate.state.locks import is_held
from orchestrate.state.runs import Run

Counted = Callable[[LedgerEntry], float]


def _model(entry: LedgerEntry) -> str:
    return entry.model or f"{entry.agent or 'agent'} (model not told)"


WAYS: dict[str, Callable[[LedgerEntry], str]] = {
    "day": lambda entry: entry.day,
    "recipe": lambda entry: entry.recipes[0] if entry.recipes else "",
    "step": lambda entry: f"{entry.recipes[-1] if entry.recipes else ''}: {entry.step}",
    "model": _model,
    "workspace": lambda entry: entry.workspace,
}


@mutable_record
class Spending:
    """What some calls have cost, in US dollars."""

    name: str
    calls: int = 0
    spent_usd: float = 0.0
    # Of `spent_usd`: computed from tokens and configured prices.
    computed_usd: float = 0.0
    unknown_calls: int = 0
    counted_usd: float = 0.0
    reserved_usd: float = 0.0
    # Of `reserved_usd`: by runs that no process works on, which are named.
    left_usd: float = 0.0
    left_runs: list[str] = field(default_factory=list)
    tokens: int = 0

    def add(self, entry: LedgerEntry, counted: Counted) -> None:
        self.calls += 1
        self.tokens += entry.tokens
        if not entry.is_settled:
            self.reserved_usd += entry.reserved_usd
            if entry.root and not _is_at_work(entry):
                self.left_usd += entry.reserved_usd
                self.left_runs += [entry.run] if entry.run not in self.left_runs else []
        elif entry.cost_usd is None:
            self.unknown_calls += 1
            self.counted_usd += counted(entry)
        else:
            self.spent_usd += entry.cost_usd
            self.computed_usd += entry.cost_usd if entry.is_computed else 0.0

    def to_json(self) -> dict[str, Any]:
        figures = ("spent_usd", "computed_usd", "counted_usd", "reserved_usd", "left_usd")
        counts = ("calls", "unknown_calls", "tokens")
        return {
            "name": self.name,
            **{figure: round(getattr(self, figure), 6) for figure in figures},
            **{count: getattr(self, count) for count in counts},
            "left_runs": self.left_runs,
        }


def _is_at_work(entry: LedgerEntry) -> bool:
    """Does a process hold the run? None does where there is no such folder any more."""
    try:
        return is_held(Run(entry.run, Path(entry.root)).lock_file)
    except (OrchestrateError, ValueError):
        return False


def spending_by(
    way: str, entries: Iterable[LedgerEntry], counted: Counted
) -> tuple[list[Spending], Spending]:
    """A sum for each day, recipe and so on, days in order and else the dearest first; and all.
    `counted` says what budgets count for a call that did not tell its cost."""
    key, total = WAYS[way], Spending("total")
    found: dict[str, Spending] = {}
    for entry in entries:
        name = key(entry)
        found.setdefault(name, Spending(name)).add(entry, counted)
        total.add(entry, counted)
    if way == "day":
        return [found[name] for name in sorted(found)], total
    return sorted(found.values(), key=lambda one: (-one.spent_usd, one.name)), total
