"""At the limit with a person at the terminal: the run asks, and goes on or stays parked."""

from __future__ import annotations

import pytest

from tests.acceptance.fakes import read_state
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.terminal import at_terminal
from tests.recipes.test_budgets import FILES
from tests.recipes.test_money import costing

pytestmark = pytest.mark.usefixtures("noon")

QUESTION = "[y]es, [n]o, or type another limit: "


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", costing(0.40)))
    return shop


@pytest.mark.parametrize("dialect", list(FILES))
def test_a_yes_raises_the_limit_and_the_run_goes_on(shop: Workshop, dialect: str) -> None:
    shop.write("r.yaml", FILES[dialect].format(more="limits: {cost_usd: 0.5}"))
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        shown = terminal.read_until(QUESTION)
        assert "$0.40 of $0.50 spent; the next call may need $0.40" in shown
        assert "Go on with --max-cost 0.80?" in shown
        assert read_state(shop.latest)["status"] == "paused", "whoever looks sees that it waits"
        terminal.type("perhaps\n")
        assert "'perhaps' is not an answer here" in terminal.read_until(QUESTION)
        terminal.type("y\n")
        assert "$0.80 of $0.80 spent" in terminal.read_until(QUESTION), "it asks again"
        terminal.type("0.80\n")
        shown = terminal.read_until(QUESTION)
        assert "$0.80 of $0.80 spent already: type a limit above that" in shown
        terminal.type("$2\n")
        assert terminal.wait() == 0
    assert shop.asked() == ["one", "two", "three"]
    assert read_state(shop.latest)["status"] == "completed"


@pytest.mark.parametrize("answer", ["n\n", "\x04", "\x03"], ids=["no", "end-of-input", "ctrl-c"])
def test_a_no_leaves_it_parked_and_resume_asks_again(shop: Workshop, answer: str) -> None:
    shop.write("r.yaml", FILES["recipe"].format(more="limits: {cost_usd: 0.5}"))
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        terminal.read_until(QUESTION)
        terminal.type(answer)
        assert terminal.wait() == 6
    assert shop.asked() == ["one"]
    with at_terminal(shop.folder, shop.surroundings, "resume", "--no-live") as terminal:
        terminal.read_until(QUESTION)
        terminal.type("9\n")
        assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("limit", "offer", "more"),
    [
        ("calls: 1", "--max-calls 2", "3"),
        ("tokens: 1200", "--max-tokens 2200", "9000"),
        ("time: 0.001", "--max-time 1s", "1h"),
    ],
)
def test_calls_tokens_and_time_are_asked_for_too(
    shop: Workshop, limit: str, offer: str, more: str
) -> None:
    shop.write("r.yaml", FILES["recipe"].format(more=f"limits: {{{limit}}}"))
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        assert f"Go on with {offer}?" in terminal.read_until(QUESTION)
        terminal.type("0.001s\n" if limit.startswith("time") else "1\n")
        assert "already: type a limit above that" in terminal.read_until(QUESTION)
        terminal.type(f"{more}\n")
        assert terminal.wait() == 0
    assert shop.asked() == ["one", "two", "three"]


def test_a_steps_limit_allows_as_much_again(shop: Workshop) -> None:
    failing = {"fail": "overloaded", "cost": 0.4}
    shop.answers(rule("STEP", failing, failing, costing(0.1)))
    shop.write("r.yaml", recipe("""
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", limits: {cost_usd: 0.7},
             retry: {max_attempts: 5, initial_delay: 0}}
    """))  # fmt: skip
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        terminal.read_until("Go on with as much again? [y]es, [n]o: ")
        terminal.type("yes\n")
        assert terminal.wait() == 0


def test_a_days_limit_is_in_a_file_and_no_question(shop: Workshop) -> None:
    shop.write("r.yaml", FILES["recipe"].format(more="limits: {per_day: {cost_usd: 0.5}}"))
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        assert terminal.wait() == 6
        assert "allow more in the file" in terminal.shown


def test_a_reset_time_that_cannot_be_one_is_asked_about(shop: Workshop) -> None:
    limited = {"fail": "rate-limit", "resets_in": 20 * 86400}
    shop.answers(rule("STEP", limited, limited, costing(0.1)))
    shop.write("r.yaml", FILES["recipe"].format(more=""))
    asked = "Ask again now? [y]es, [n]o: "
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml", "--no-live") as terminal:
        assert "more than eight days ahead: look at the account" in terminal.read_until(asked)
        assert len(shop.calls()) == 1
        terminal.type("y\n")
        terminal.read_until(asked)
        assert len(shop.calls()) == 2
        terminal.type("n\n")
        assert terminal.wait() == 6
    shop.go_on()
    assert shop.asked() == ["one", "one", "one", "two", "three"]


def test_who_does_not_wait_for_a_usage_limit_is_not_asked(shop: Workshop) -> None:
    shop.answers(rule("STEP", {"fail": "rate-limit", "resets_in": 3600}))
    shop.write("r.yaml", FILES["recipe"].format(more=""))
    words = ("run", "r.yaml", "--no-live", "--no-wait-for-quota")
    with at_terminal(shop.folder, shop.surroundings, *words) as terminal:
        assert terminal.wait() == 6


def test_a_person_who_answers_for_an_agent_needs_no_money(shop: Workshop) -> None:
    shop.agent("me", "---\nname: me\ndescription: A person\nbackend: human\n---\nAnswer.\n")
    shop.write("r.yaml", recipe("""
        limits: {cost_usd: 0.1}
        steps: [{id: one, agent: me, prompt: "STEP:one"}]
    """))  # fmt: skip
    said = shop.run("run", "r.yaml").assert_exit(1).stderr
    assert "the backend 'human' needs a terminal to ask at" in said


def test_a_declared_provider_is_paid_for_also_where_a_person_answers_for_the_agents(
    shop: Workshop,
) -> None:
    """No backend stands in for a command of the definition: it is run, and it may cost."""
    shop.write("w.yaml", """
version: "1.4"
name: declared
limits: {cost_usd: 0.3}
providers:
  mine: {command: [sh, -c, "cat > /dev/null; echo asked >> asked"], input_mode: stdin}
steps:
  - {name: One, provider: mine, prompt: "one"}
  - {name: Two, provider: mine, prompt: "two"}
""")  # fmt: skip
    environment = {**shop.surroundings, "ORCHESTRATE_BACKEND": "human"}
    with at_terminal(shop.folder, environment, "run", "w.yaml", "--no-live") as terminal:
        assert "$0.25 of $0.30 spent, 1 call did not say" in terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.wait() == 6
    assert (shop.folder / "asked").read_text() == "asked\n"
