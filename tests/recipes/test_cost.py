"""`orchestrate cost`: what was spent, what is unknown, what is reserved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine.costing import MoneyRules
from orchestrate.show.cost_table import spending_table
from orchestrate.state.ledger import Ledger, LedgerEntry
from orchestrate.view.bill import Spending, spending_by
from tests.recipes.fakes import Workshop, rule
from tests.recipes.test_money import DONE, STEPS, costing

pytestmark = pytest.mark.usefixtures("noon")


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP:one", costing(0.40)), rule("STEP", {"text": DONE, "cost": None}))
    return shop


def test_a_run_is_in_the_bill_and_what_is_unknown_is_not_zero(shop: Workshop) -> None:
    shop.play(STEPS.format(more=""))
    told = shop.run("cost", "--json").assert_success().json()
    total = told["total"]
    assert (total["calls"], total["spent_usd"], total["unknown_calls"]) == (3, 0.4, 2)
    assert total["reserved_usd"] == 0
    (row,) = shop.run("cost", "--by", "recipe", "--json").assert_success().json()["rows"]
    assert row["name"].endswith(".yaml")
    steps = shop.run("cost", "--by", "step", "--json").assert_success().json()["rows"]
    assert [one["spent_usd"] for one in steps] == [0.4, 0, 0]
    text = shop.run("cost").assert_success().stdout
    assert "  $0.4000  3 calls, 2 of unknown cost" in text
    assert "█" not in text, "not to a pipe"
    # No limit held, and none has counted them: a limit of the day would count the guess.
    assert "2 of unknown cost (counted as $0.50)" in text
    shop.write(".orchestrate/config.yaml", "costs: {guess_usd: 2}\n")
    assert shop.run("cost", "--json").json()["total"]["counted_usd"] == 4
    shop.write(".orchestrate/config.yaml", "costs: {unknown: allow}\n")
    assert shop.run("cost", "--json").json()["total"]["counted_usd"] == 0


def test_another_workspace_is_counted_only_with_all(shop: Workshop, tmp_path: Path) -> None:
    shop.play(STEPS.format(more=""))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inside = ("--working-dir", str(elsewhere))
    none = shop.run("cost", "--since", "2026-01-02", *inside).assert_success().stdout
    assert (
        none == "No agent was asked since 2026-01-02 00:00:00 in this workspace (--all: in all).\n"
    )
    everywhere = shop.run("cost", "--all", "--by", "workspace", "--json", *inside).json()
    assert everywhere["total"]["calls"] == 3
    shop.run("cost", "--since", "yesterday-ish").assert_exit(2)


def test_what_is_not_settled_is_reserved_and_days_stand_in_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    about: dict[str, Any] = {"run": "r", "workspace": "w", "recipes": ("a.yaml",), "step": "s"}
    first = LedgerEntry(call="1", at=86400 * 3.5, reserved_usd=0.5, **about)
    ledger.write(first)
    ledger.write(
        LedgerEntry(call="2", at=86400 * 1.5, is_settled=True, cost_usd=2.0, model="m", **about)
    )
    rows, total = spending_by("day", ledger.since(0), MoneyRules().counted_entry)
    assert [row.spent_usd for row in rows] == [2.0, 0.0]
    assert (total.reserved_usd, total.spent_usd, total.calls) == (0.5, 2.0, 2)
    ledger.write(
        LedgerEntry(call="1", at=first.at, reserved_usd=0.5, is_settled=True, cost_usd=0.1, **about)
    )
    _, total = spending_by("model", ledger.since(0), MoneyRules().counted_entry)
    assert total.reserved_usd == 0
    assert json.dumps(total.to_json()["spent_usd"]) == "2.1"


def test_the_table_has_bars_only_where_they_fit() -> None:
    rows = [
        Spending("monday", calls=1, spent_usd=8.0),
        Spending("tuesday", calls=2, spent_usd=12.0),
    ]
    total = Spending("total", calls=3, spent_usd=20.0)
    plain = "monday    $8.0000  1 call\ntuesday  $12.0000  2 calls\ntotal    $20.0000  3 calls\n"
    assert spending_table(rows, total, 0) == spending_table(rows, total, 34) == plain
    monday, tuesday, last = spending_table(rows, total, 40).splitlines()
    assert tuesday == "tuesday  $12.0000  2 calls  " + "█" * 12
    assert monday == "monday    $8.0000  1 call  " + "█" * 8
    assert last == "total    $20.0000  3 calls"
