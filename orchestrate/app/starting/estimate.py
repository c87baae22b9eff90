"""What a run may cost, before it starts: at worst by its plan, and as its earlier runs have."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.money import money_rules
from orchestrate.app.definitions.agents_asked import AskedAgent, asked_by_step
from orchestrate.app.given.scopes import starting_values
from orchestrate.engine.costing import (
    LOOK_BACK_S,
    MoneyRules,
    earlier_calls,
    is_of_recipe,
    percentile,
)
from orchestrate.engine.evaluate import evaluate
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.plan.nodes import Call, Each, Plan, Program, all_nodes, main_plan, nodes_in
from orchestrate.plan.worst_case import most_calls, most_in_all, times
from orchestrate.record import record
from orchestrate.state.ledger import LedgerEntry, ledger_of
from orchestrate.state.lineage import ORIGIN
from orchestrate.state.runs import Run
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.app.starting.prepare import Prepared

_OFTEN = 0.95


@record
class CallsOf:
    """How often an agent is asked at most, with one model; infinite where nothing bounds it."""

    agent: str
    model: str | None
    calls: float


@record
class Estimate:
    """What a run may take. None of money: not known, because nothing bounds the calls."""

    by_agent: tuple[CallsOf, ...]
    calls: float
    worst_usd: float | None
    guess_usd: float
    # What earlier runs of the file have cost: how many there were, the middle one, and what
    # nineteen of twenty did not exceed.
    runs: int = 0
    usual_usd: float | None = None
    often_usd: float | None = None
    # At which the run parks, whatever earlier ones have cost.
    limit_usd: float = inf

    @property
    def expected_usd(self) -> float:
        """What a person who wants to be asked has to be asked about."""
        if self.often_usd is not None and self.worst_usd != 0:
            return min(self.often_usd, self.limit_usd)
        return inf if self.worst_usd is None else self.worst_usd

    def to_json(self) -> dict[str, Any]:
        def number(calls: float) -> int | None:
            return None if calls == inf else int(calls)

        return {
            "worst": {
                "calls": number(self.calls),
                "cost_usd": self.worst_usd,
                "by_agent": [
                    {"agent": one.agent, "model": one.model, "calls": number(one.calls)}
                    for one in self.by_agent
                ],
            },
            "expected": {"runs": self.runs, "usual_usd": self.usual_usd, "p95_usd": self.often_usd},
            "guess_usd": self.guess_usd,
        }


def estimate(prepared: Prepared) -> Estimate:
    """What a run of a prepared recipe may take."""
    program, workspace = prepared.program, str(prepared.workspace.root)
    rules = money_rules(prepared.config)
    calls = most_calls(program, lambda plan, each: _count_items(program, plan, each))
    asked = asked_by_step(program, prepared.workspace, prepared.settings)
    entries = list(ledger_of(os.environ).since(time.time() - LOOK_BACK_S))
    names = _step_names(program)
    prices = {
        (plan, node): _price(entries, (plan, names[plan, node]), asked.get((plan, node)), rules,
                             workspace)
        for plan, node in calls
    }  # fmt: skip
    by_agent: dict[tuple[str, str | None], float] = {}
    worst = 0.0
    for key, often in calls.items():
        one = asked.get(key)
        who = ("a file that is known later", None) if one is None else (one.agent, one.model)
        by_agent[who] = by_agent.get(who, 0.0) + often
        worst += times(often, prices[key])
    total = most_in_all(program, calls)
    if calls and total < sum(calls.values()):
        worst = min(worst, times(total, max(prices.values())))
    limit = main_plan(program).limits.max_cost
    worst = worst if limit is None else min(worst, limit)
    found = [CallsOf(*who, min(often, total)) for who, often in by_agent.items()]
    known = _earlier_runs(entries, program.main, workspace, rules)
    return Estimate(
        tuple(found), total, None if worst == inf else round(worst, 4), rules.guess_usd, len(known),
        round(percentile(known, 0.5), 4) if known else None,
        round(percentile(known, _OFTEN), 4) if known else None,
        inf if limit is None else limit,
    )  # fmt: skip


def _step_names(program: Program) -> dict[tuple[str, str], str]:
    """By plan and node the name under which the ledger has a step; a round has that of its step."""
    found = {}
    for plan in program.plans:
        names = {node.id: node.name for node in nodes_in(plan)}
        for node in nodes_in(plan):
            found[plan.id, node.id] = names[node.part_of or node.id]
    return found


def _price(
    entries: list[LedgerEntry],
    key: tuple[str, str],
    asked: AskedAgent | None,
    rules: MoneyRules,
    workspace: str,
) -> float:
    """What one call of a step costs at most, nineteen times of twenty; nothing for a stand-in."""
    if asked is not None and asked.backend is not None and asked.permissions is None:
        return 0.0
    earlier = earlier_calls(entries, key[0], key[1], workspace)
    return rules.guess_usd if earlier.often is None else earlier.often


def _earlier_runs(
    entries: list[LedgerEntry], recipe: str, workspace: str, rules: MoneyRules
) -> list[float]:
    """What earlier runs have cost. One that has not done the whole work tells only how much that
    costs at least: it counts where that is more than any other has cost."""
    costs: dict[Run, float] = {}
    for entry in entries:
        if entry.is_settled and is_of_recipe(entry, recipe, workspace):
            run = Run(entry.run, Path(entry.root))
            costs[run] = costs.get(run, 0.0) + rules.counted_entry(entry)
    whole = {run for run in costs if _is_whole(run)}
    most = max((costs[run] for run in whole), default=inf)
    return [cost for run, cost in costs.items() if run in whole or cost > most]


def _is_whole(run: Run) -> bool:
    """Has it done the whole work? One step alone has not, nor a fork; what was removed may have."""
    if not os.path.lexists(run.state):
        return True
    summary = summary_of(run)
    is_part = summary.marks["run_step"] or os.path.lexists(run.root / ORIGIN)
    return summary.status == "completed" and not is_part


def _count_items(program: Program, plan: Plan, each: Each) -> int | None:
    """The items of a loop that the file itself, or a flag, gives, and nothing else sets."""
    with suppress(OrchestrateError, AssertionError, LookupError, TypeError, ValueError):
        values, set_later = starting_values(plan).items(), _set_later(program, plan)
        items = evaluate(each.items, _Given({k: v for k, v in values if k not in set_later}))
        if isinstance(items, list):
            return len(items)
    return None


def _set_later(program: Program, plan: Plan) -> set[str]:
    """The variables of a plan that its steps set, or the plan that calls it."""
    names: set[str] = set()
    for node in nodes_in(plan):
        names |= node.variables
        if isinstance(node.op, Each):
            names |= {node.op.variable, node.op.collect or ""}
            if node.op.rounds is not None:
                names |= {name for name, _ in node.op.rounds.updates.items}
    for node in all_nodes(program):
        if isinstance(node.op, Call) and node.op.plan == plan.id:
            names |= {name for name, _ in node.op.arguments.items}
    return names


class _Given:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def look_up(self, path: tuple[str, ...]) -> Any:
        kind, *names = path
        if kind not in ("var", "context"):
            raise KeyError(kind)
        found: Any = self._values
        for name in names:
            found = found[name]
        return found


def confirm_cost(prepared: Prepared, ask: Callable[[str], bool] | None) -> None:
    """`--confirm-above`: nothing is started that may cost more, unless a person agrees."""
    most = prepared.settings.confirm_above
    if most is None:
        return
    expected = estimate(prepared)
    if expected.expected_usd <= most:
        return
    how = "as nineteen of twenty earlier runs" if expected.runs else "at worst"
    how = "up to its limit" if expected.expected_usd == expected.limit_usd else how
    usd = "without bound" if expected.expected_usd == inf else f"${expected.expected_usd:.2f}"
    what = f"the run may cost {usd} ({how}), more than --confirm-above {most:g}"
    if ask is None:
        raise UsageError(what, "nothing was started; allow more, or start it at a terminal")
    if not ask(what):
        raise UsageError("nothing was started")
