"""Unknown is not zero: calls that do not say what they cost, or how many tokens they took."""

from __future__ import annotations

import json
import signal

import pytest

from orchestrate.engine.costing import MoneyRules
from orchestrate.state.ledger import LedgerEntry, ledger_of
from orchestrate.state.result import Costs, StepResult
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import ITEMS, _events, _users, costing

pytestmark = pytest.mark.usefixtures("noon")

ALL = pytest.mark.parametrize("dialect", list(FILES))
# A provider of a workflow never tells what it has used.
MUTE = """\
version: "1.4"
name: trial
limits: LIMITS
providers:
  mute: {command: [sh, -c, "cat; echo asked >> made"], input_mode: stdin}
steps:
  - name: Each
    for_each:
      items: [1, 2, 3, 4, 5, 6, 7, 8]
      parallel: true
      steps: [{name: one, provider: mute, prompt: "Do ${item}"}]
"""


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


def _play_mute(shop: Workshop, limits: str, *flags: str) -> tuple[str, int]:
    """Why the run has parked, and how often the provider was asked."""
    shop.write("r.yaml", MUTE.replace("LIMITS", limits))
    played = shop.look(shop.run("run", "r.yaml", *flags).assert_exit(6))
    return played.state["reason"], _made(shop)


def _made(shop: Workshop) -> int:
    return len((shop.folder / "made").read_text("utf-8").split())


@ALL
def test_refuse_parks_after_the_first_silent_call_without_any_limit(
    shop: Workshop, dialect: str
) -> None:
    shop.answers(rule("STEP", costing(None)))
    _users(shop, "costs: {unknown: refuse}\n")
    parked = shop.play(FILES[dialect].format(more=""), exit_code=6)
    assert shop.asked() == ["one"]
    assert "1 call did not report what it cost" in parked.state["reason"]
    shop.go_on(exit_code=6)
    _users(shop, "costs: {unknown: count}\n")
    shop.go_on()
    assert shop.asked() == ["one", "two", "three"]


def test_refuse_lets_items_go_on_at_once_only_when_one_has_told_its_cost(shop: Workshop) -> None:
    _users(shop, "costs: {unknown: refuse}\n")
    text = ITEMS.replace("limits: {cost_usd: 2}\n", "")
    shop.play(text, "--max-parallel", "16")
    shop.answers(rule("STEP", costing(None)))
    shop.play(text.replace("id: each", "id: other"), "--max-parallel", "16", exit_code=6)
    assert len(shop.calls()) == 16 + 1


def test_refuse_asks_for_tokens_only_where_they_are_limited(shop: Workshop) -> None:
    shop.answers(rule("STEP", costing(0.1, tells_tokens=False)))
    _users(shop, "costs: {unknown: refuse}\n")
    parked = shop.play(FILES["recipe"].format(more="limits: {tokens: 999999}"), exit_code=6)
    assert "1 call did not report how many tokens it took" in parked.state["reason"]
    shop.play(FILES["recipe"].format(more="limits: {cost_usd: 9}"))


@ALL
def test_a_call_that_was_lost_counts_as_many_tokens_as_earlier_ones(
    shop: Workshop, dialect: str
) -> None:
    shop.answers(rule("STEP:two", {"fail": "killed"}, costing(0.1)), rule("STEP", costing(0.1)))
    shop.write("r.yaml", FILES[dialect].format(more="limits: {tokens: 2800}"))
    shop.run("run", "r.yaml").assert_exit(4 if dialect == "machine" else 1)
    parked = shop.go_on(exit_code=6)
    reason = parked.state["reason"]
    assert "2200 of 2800 tokens used, 1 call did not say; the next call may need 1100" in reason
    assert parked.state["costs"]["counted_tokens"] == 1100
    shop.go_on("resume", "latest", "--max-tokens", "9999")
    assert shop.asked() == ["one", "two", "two", "three"]


def test_of_8_silent_items_those_are_asked_whose_guess_fits(shop: Workshop) -> None:
    _users(shop, "costs: {guess_tokens: 40}\n")
    reason, made = _play_mute(shop, "{tokens: 130}")
    assert "limits.tokens is reached: 120 of 130 tokens used, 3 calls did not say" in reason
    assert made == 3
    (budget,) = shop.run("status", "--json").json()["budgets"]
    assert (budget["spent"], budget["unknown"], budget["needed"]) == (120, 3, 40)
    shop.run("resume", "latest", "--max-tokens", "320").assert_success()
    assert _made(shop) == 8


def test_the_day_counts_silent_tokens_too_and_allow_counts_none(shop: Workshop) -> None:
    rules = "limits: {{per_day: {{tokens: 130}}}}\ncosts: {{guess_tokens: 40, unknown: {}}}\n"
    _users(shop, rules.format("count"))
    reason, made = _play_mute(shop, "{calls: 99}")
    assert "the user's limits.per_day.tokens is reached: 120 of 130 tokens used" in reason
    assert made == 3
    _users(shop, rules.format("allow"))
    shop.run("resume", "latest").assert_success()
    assert _made(shop) == 8


def test_what_was_used_before_there_was_a_limit_counts_as_the_guess() -> None:
    silent = StepResult(agent="a", input_tokens=30)
    costs = Costs().with_turn(silent, 0.5, 70).with_turn(StepResult(agent="a"))
    rules = MoneyRules(guess_usd=0.25, guess_tokens=1000)
    assert rules.counted(costs) == (0.75, 30 + 70 + 1000)
    assert MoneyRules(unknown="allow").counted(costs) == (0, 30)
    about = LedgerEntry("c", 1.0, "r", "/w", ("r.yaml",), "one", is_settled=True, input_tokens=30)
    assert rules.counted_tokens(about) == 1000
    assert Costs(**json.loads(json.dumps(costs.to_json()))) == costs


def test_a_killed_run_that_is_cancelled_counts_its_last_calls_tokens(shop: Workshop) -> None:
    gate = shop.top / "gate"
    shop.answers(rule("STEP:one", costing(0.1)), rule("STEP", delay=60, until=str(gate)))
    shop.write("r.yaml", recipe("""
        limits: {tokens: 9999}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one"}
          - {id: two, agent: helper, prompt: "STEP:two"}
    """))  # fmt: skip
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1, "two")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    shop.run("cancel", shop.latest.name).assert_success()
    gate.touch()
    last = list(ledger_of(shop.surroundings).since(0))[-1]
    assert (last.is_settled, last.counted_tokens) == (True, 1100)
    assert shop.look(shop.run("status")).state["costs"]["counted_tokens"] == 1100


def test_the_reservation_says_what_a_silent_call_counts_for(shop: Workshop) -> None:
    played = shop.play(FILES["recipe"].format(more="limits: {cost_usd: 9}"))
    reserved = _events(played, "cost-reserved")
    assert [event["unknown_tokens"] for event in reserved] == [100_000, 1100, 1100]


def test_what_is_advised_for_a_called_files_limit_has_room_for_what_the_run_has_counted(
    shop: Workshop,
) -> None:
    shop.answers(rule("STEP:mute", costing(None)), rule("STEP", costing(0.4)))
    _users(shop, "costs: {guess_usd: 3}\n")
    shop.write("child.yaml", FILES["recipe"].format(more="limits: {cost_usd: 1}"))
    text = recipe("""
        limits: {cost_usd: 99}
        steps:
          - {id: before, agent: helper, prompt: "STEP:mute"}
          - {id: call, type: recipe, recipe: child.yaml}
    """)
    parked = shop.play(text, exit_code=6)
    assert f"resume {parked.run_id} --max-cost 6.00" in parked.result.stderr
    shop.go_on("resume", parked.run_id, "--max-cost", "6.00")
