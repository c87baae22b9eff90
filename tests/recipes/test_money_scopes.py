"""Budgets of tokens, of steps and of days: nothing overshoots, and each is warned of once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from orchestrate.state.ledger import Ledger, LedgerEntry
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import ITEMS, STEPS, _events, _users, costing

pytestmark = pytest.mark.usefixtures("noon")


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


def test_of_16_parallel_items_those_are_asked_whose_tokens_fit(shop: Workshop) -> None:
    """A call takes 1100 tokens."""
    played = shop.play(
        ITEMS.replace("cost_usd: 2", "tokens: 5600"), "--max-parallel", "16", exit_code=6
    )
    assert len(shop.asked()) == 5
    reason = played.state["reason"]
    assert reason.startswith("limits.tokens is reached: 5500 of 5600 tokens used"), reason
    assert "the next call may need 1100 tokens" in reason
    assert f"resume {played.run_id} --max-tokens 11000" in played.result.stderr
    shop.go_on("resume", "latest", "--max-tokens", "17600")
    assert len(shop.asked()) == len(set(shop.asked())) == 16


def test_a_call_that_was_turned_away_says_nothing_of_what_the_next_one_costs(
    shop: Workshop,
) -> None:
    """It has cost $0.00, which was set aside for each of the others: all 16 were paid."""
    shop.answers(rule("STEP:i1", {"fail": "overloaded"}, costing(0.4)), rule("STEP", costing(0.4)))
    text = ITEMS.replace("prompt:", "retry: {max_attempts: 3, initial_delay: 0}, prompt:")
    played = shop.play(text, "--max-parallel", "16", exit_code=6)
    events = [event for event in played.events() if event["on"] == "cost-reserved"]
    assert min(event["usd"] for event in events) == 0.25
    assert played.state["costs"]["cost_usd"] <= 2
    assert len([call for call in shop.calls() if call.end is not None]) <= 6


def test_the_tokens_of_a_day_are_set_aside_too(shop: Workshop) -> None:
    _users(shop, "limits: {per_day: {tokens: 3400}}\n")
    text = ITEMS.replace("limits: {cost_usd: 2}\n", "")
    shop.play(text, "--max-parallel", "16", exit_code=6)
    assert len(shop.asked()) == 3


def test_calls_whose_cost_nobody_tells_run_at_once_after_the_first(shop: Workshop) -> None:
    """The first one has settled: from then on the guess is all that will be known."""
    gate = shop.top / "gate"
    # Any of the items may be the first.
    shop.answers(rule("STEP", costing(None), costing(None, delay=60, until=str(gate))))
    shop.write("r.yaml", recipe("""
        limits: {cost_usd: 9}
        context: {items: [first, a, b, c]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}}"}
    """))  # fmt: skip
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(4)
        at_work = [call for call in shop.calls() if call.end is None]
        assert len(at_work) == 3
        gate.touch()
        assert process.wait(60) == 0


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_warning_is_given_once_over_resumes_and_again_for_a_raised_limit(
    shop: Workshop, dialect: str
) -> None:
    text = FILES[dialect].format(more="limits: {cost_usd: 0.5}")
    assert len(_near(shop.play(text, exit_code=6))) == 1
    assert len(_near(shop.go_on(exit_code=6))) == 1, "nothing has changed"
    near = _near(shop.go_on("resume", "latest", "--max-cost", "1", exit_code=6))
    assert [(event["limit"], event["most"]) for event in near] == [
        ("limits.cost_usd", 0.5),
        ("limits.cost_usd", 1),
    ]


def _near(played: Any) -> list[dict[str, Any]]:
    return _events(played, "limit-near")


def test_a_steps_own_limits_are_warned_of_once(shop: Workshop) -> None:
    text = recipe("""
        context: {items: [1, 2, 3]}
        steps:
          - {id: each, foreach: "{{items}}", agent: helper, prompt: "STEP:i{{item}}",
             limits: {cost_usd: 0.5, tokens: 1200}}
    """)
    played = shop.play(text)
    assert [event["limit"] for event in _near(played)] == [
        "limits.cost_usd of step 'each'",
        "limits.tokens of step 'each'",
    ]
    said = played.result.stderr
    assert said.count("warning: limits.cost_usd of step 'each': $0.40 of $0.50 spent (80%)") == 1


@pytest.mark.parametrize(("limit", "share"), [("cost_usd: 0.9", 89), ("tokens: 2700", 81)])
def test_the_days_of_the_user_and_of_a_recipe_are_warned_of_once(
    shop: Workshop, limit: str, share: int
) -> None:
    _users(shop, f"limits: {{per_day: {{{limit}}}}}\n")
    played = shop.play(STEPS.format(more=f"limits: {{per_day: {{{limit}}}}}"), exit_code=6)
    name = f"limits.per_day.{limit.partition(':')[0]}"
    assert [event["limit"] for event in _near(played)] == [f"r.yaml: {name}", f"the user's {name}"]
    assert f"({share}%)" in played.result.stderr
    assert len(_near(shop.go_on(exit_code=6))) == 2


def test_a_days_ledger_is_read_by_one_run_at_a_time(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that looked before either wrote would set the same dollar aside."""
    held: list[bool] = []
    looked: list[bool] = []
    holding, today = Ledger.holding, Ledger.today

    @contextmanager
    def hold(self: Ledger) -> Iterator[None]:
        with holding(self):
            held.append(True)
            yield
            held.pop()

    def look(self: Ledger, now: float) -> list[LedgerEntry]:
        looked.append(bool(held))
        return today(self, now)

    text = recipe("""
        limits: {per_day: {cost_usd: 9}}
        steps: [{id: one, agent: helper, prompt: "STEP:one"}]
    """)
    monkeypatch.setattr(Ledger, "holding", hold)
    monkeypatch.setattr(Ledger, "today", look)
    shop.play(text)
    # The last look is for the warning, when all is settled.
    assert looked[:-1]
    assert all(looked[:-1])


def test_the_limits_of_a_called_file_are_warned_of(shop: Workshop) -> None:
    limits = "limits: {cost_usd: 1.3, per_day: {cost_usd: 1.4, calls: 3}}"
    shop.write("child.yaml", STEPS.format(more=limits))
    played = shop.play(recipe("""
        limits: {cost_usd: 9}
        steps:
          - {id: call, type: recipe, recipe: child.yaml}
          - {id: last, type: bash, command: "true"}
    """))  # fmt: skip
    assert [(event["limit"], event["most"]) for event in _near(played)] == [
        ("limits.cost_usd of child.yaml", 1.3),
        ("child.yaml: limits.per_day.cost_usd", 1.4),
        ("child.yaml: limits.per_day.calls", 3),
    ]
    said = played.result.stderr
    assert "warning: limits.cost_usd of child.yaml: $1.20 of $1.30 spent (92%)" in said


@pytest.mark.parametrize("dialect", list(FILES))
def test_the_last_call_of_a_run_warns_of_the_day_that_others_share(
    shop: Workshop, dialect: str
) -> None:
    _users(shop, "limits: {per_day: {cost_usd: 1.3}}\n")
    played = shop.play(FILES[dialect].format(more="limits: {cost_usd: 1.4}"))
    (near,) = _near(played)
    assert near["limit"] == "the user's limits.per_day.cost_usd"
    assert "the user's limits.per_day.cost_usd: $1.20 of $1.30 spent (92%)" in played.result.stderr


CHECKED = {
    "machine": """
id: trial
label: Trial
description: A trial of ours
initialStep: one
steps:
  one:
    prompt: "STEP:one"
    limits: {LIMITS}
    check: {command: ["false"], rounds: 5}
    outcomes: [complete, other]
    onOutcome:
      complete: {action: exit, reason: done}
      other: {action: exit, reason: gave-up}
""",
    "recipe": recipe("""
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", limits: {LIMITS},
             check: {command: ["false"], rounds: 5}}
    """),
    "workflow": """
version: "1.4"
name: trial
steps:
  - {name: one, provider: claude, prompt: "STEP:one", limits: {LIMITS},
     check: {command: ["false"], rounds: 5}}
""",
}


@pytest.mark.parametrize("dialect", list(CHECKED))
@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("cost_usd: 0.7", "limits.cost_usd of step 'one' is reached: $0.80 of $0.70 spent"),
        ("tokens: 2000", "limits.tokens of step 'one' is reached: 2200 of 2000 tokens used"),
    ],
)
def test_a_steps_own_limit_holds_for_all_rounds_of_its_check(
    shop: Workshop, dialect: str, limit: str, words: str
) -> None:
    shop.answers(rule("", costing(0.4)))
    played = shop.play(CHECKED[dialect].replace("LIMITS", limit), exit_code=6)
    assert len(shop.calls()) == 2
    assert words in played.state["reason"]
    assert len(_near(played)) == 1
    again = shop.go_on(exit_code=6)
    assert len(shop.calls()) == 4, "resume allows as much again"
    assert words in again.state["reason"]


@pytest.mark.parametrize("dialect", list(FILES))
@pytest.mark.parametrize("limit", ["cost_usd: 0.5", "tokens: 1500", "calls: 1"])
def test_an_edit_gives_a_called_file_no_new_budget(
    shop: Workshop, dialect: str, limit: str
) -> None:
    shop.write("child.yaml", FILES[dialect].format(more=f"limits: {{{limit}}}"))
    text = recipe("""
        steps:
          - {id: call, type: recipe, recipe: child.yaml}
          - {id: last, agent: helper, prompt: "STEP:last"}
    """)
    shop.play(text, exit_code=6)
    shop.write("r.yaml", text.replace("STEP:last", "STEP:other"))
    again = shop.go_on("resume", "latest", "--edited", exit_code=6)
    assert shop.asked() == ["one"]
    assert f"limits.{limit.partition(':')[0]} of child.yaml" in again.state["reason"]
    assert again.state["costs"]["cost_usd"] == 0.4


CALLERS = {
    "recipe": recipe("""
        steps:
          - {id: call, type: recipe, recipe: again}
    """),
    "workflow": """
version: "1.4"
name: trial
steps: [{name: call, call: again, retries: {max: 9, delay_ms: 0}}]
""",
    "machine": """
id: trial
label: Trial
description: A trial of ours
initialStep: call
steps:
  call:
    call: again
    onOutcome: {completed: {action: exit, reason: done}, failed: {action: exit, reason: failed}}
""",
}
AGAIN = """
id: again
label: Again
description: Begins anew, or fails
limits: LIMITS
initialStep: one
steps:
  one:
    prompt: "STEP:one"
    outcomes: [complete, other]
    onOutcome: {complete: END, other: {action: exit, reason: gave-up}}
"""
RESTART = "{action: restart-new-session, recipeId: again}"
FAILURE = "{action: exit, reason: no-good, status: failed}"


@pytest.mark.parametrize(
    ("dialect", "limit", "end"),
    [
        *((dialect, "cost_usd: 1", RESTART) for dialect in CALLERS),
        ("recipe", "tokens: 2500", RESTART),
        ("machine", "calls: 2", RESTART),
        ("workflow", "cost_usd: 1", FAILURE),
        ("workflow", "calls: 2", FAILURE),
    ],
)
def test_the_limits_of_a_called_file_hold_over_its_restarts_and_retries(
    shop: Workshop, dialect: str, limit: str, end: str
) -> None:
    text = AGAIN.replace("LIMITS", f"{{{limit}}}").replace("END", end)
    shop.write(".orchestrate/recipes/again.yaml", text)
    parked = shop.play(CALLERS[dialect], "--max-restarts", "9", exit_code=6)
    assert shop.asked() == ["one", "one"]
    assert "again.yaml is reached" in parked.state["reason"]
    shop.go_on(exit_code=6)
    assert shop.asked() == ["one", "one"]
