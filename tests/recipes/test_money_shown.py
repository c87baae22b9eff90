"""Spent, reserved, unknown, limit and what the next call needs: the same figures wherever a run is
shown."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.serve.api import OPERATIONS
from orchestrate.serve.openapi import openapi_document
from orchestrate.serve.rows import row_of
from orchestrate.show.live.picture import Artist
from orchestrate.state.runs import Run
from orchestrate.view.run_view import run_view
from orchestrate.workspace import open_workspace
from tests.recipes.fakes import Workshop, rule
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import DONE, STEPS, costing

pytestmark = pytest.mark.usefixtures("noon")

KEEP = "import sys; open('told.json', 'wb').write(sys.stdin.buffer.read())"
# $0.40, a call that does not say, and a third that does not fit.
PARKED = {"limit": "limits.cost_usd", "unit": "usd", "most": 1.0, "spent": 0.8, "reserved": 0.0,
          "unknown": 1, "needed": 0.4}  # fmt: skip
WORDS = "limits.cost_usd: $0.80 of $1.00 spent, 1 call did not say; the next call may need $0.40"


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP:one", costing(0.40)), rule("STEP", costing(None)))
    return shop


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_parked_run_shows_the_same_figures_everywhere(shop: Workshop, dialect: str) -> None:
    tell = {"command": [sys.executable, "-c", KEEP]}
    shop.write(".orchestrate/config.yaml", json.dumps({"notifications": [tell]}))
    shop.write("r.yaml", FILES[dialect].format(more="limits: {cost_usd: 1}"))
    answered = shop.run("run", "r.yaml", "--json").assert_exit(6).json()
    assert answered["budgets"] == [PARKED]
    assert shop.run("status", "--json").json()["budgets"] == [PARKED]
    assert f"  budget      {WORDS}\n" in shop.run("status").stdout
    assert shop.run("report", "--json").json()["budgets"] == [PARKED]
    for way in ("md", "html"):
        shown = shop.run("report", "--format", way).assert_success().stdout
        assert WORDS in shown.replace("\\", ""), way
    assert json.loads((shop.folder / "told.json").read_text("utf-8"))["budgets"] == [PARKED]
    row = row_of(open_workspace(shop.folder), _run(shop), time.time())
    assert row["budgets"] == [{**PARKED, "words": WORDS}]
    assert WORDS in _live(shop)


def _run(shop: Workshop) -> Run:
    return Run(shop.latest.name, shop.latest)


def _live(shop: Workshop) -> str:
    """What the live view's heading says."""
    view = run_view(_run(shop))
    assert view.index is not None
    rows = Artist(view.index).picture(view.state, time.time(), 40)
    return "\n".join(fact for row in rows for fact, _ in row.facts)


def test_what_is_reserved_is_shown_while_a_call_is_made(shop: Workshop, tmp_path: Path) -> None:
    until = tmp_path / "go-on"
    shop.answers(rule("STEP", {"text": DONE, "cost": 0.1, "delay": 60, "until": str(until)}))
    shop.write("r.yaml", STEPS.format(more="limits: {cost_usd: 1, tokens: 5000, calls: 9}"))
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1, "one")
        budgets: list[dict[str, Any]] = shop.run("status", "--json").json()["budgets"]
        assert [(b["unit"], b["spent"], b["reserved"], b["needed"]) for b in budgets] == [
            ("usd", 0, 0.25, None),
            ("calls", 1, 0, None),
            ("tokens", 0, 0, None),
        ]
        assert "limits.cost_usd: $0.00 of $1.00 spent, $0.25 reserved" in _live(shop)
        until.touch()
        assert process.wait(60) == 0
    (dollars, *_) = shop.run("status", "--json").json()["budgets"]
    assert (dollars["spent"], dollars["reserved"]) == (0.3, 0)


def test_a_limit_that_was_raised_is_shown_as_it_is_now(shop: Workshop) -> None:
    shop.play(STEPS.format(more="limits: {cost_usd: 1}"), exit_code=6)
    shop.go_on("resume", "latest", "--max-cost", "1.6")
    (budget,) = shop.run("status", "--json").json()["budgets"]
    assert (budget["most"], budget["spent"], budget["unknown"]) == (1.6, 1.2, 2)


def test_a_days_limit_that_parks_a_run_is_among_its_budgets(shop: Workshop) -> None:
    shop.play(STEPS.format(more="limits: {per_day: {cost_usd: 0.7}}"), exit_code=6)
    (budget,) = shop.run("status", "--json").json()["budgets"]
    assert budget["limit"] == "r.yaml: limits.per_day.cost_usd"
    assert (budget["most"], budget["spent"], budget["needed"]) == (0.7, 0.4, 0.4)


def test_the_api_says_what_a_rows_budgets_are() -> None:
    paths = openapi_document(OPERATIONS)["paths"]
    answer = paths["/api/v1/runs/{run}"]["get"]["responses"]["200"]["content"]["application/json"]
    row = answer["schema"]["properties"]["row"]
    assert {*PARKED, "words"} == set(row["properties"]["budgets"]["items"]["required"])
