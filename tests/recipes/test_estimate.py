"""What a run may take before it starts: the worst case, earlier runs, `--confirm-above`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrate.api import start
from orchestrate.app.given.settings import RunSettings
from orchestrate.errors import UsageError
from tests.recipes.fakes import Workshop, recipe, rule

ONE = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')
CIRCLE = """
id: trial
label: Trial
description: d
initialStep: review
guardrails: {maxStepVisits: 3}
steps:
  review: {outcomes: [again, ok], prompt: "STEP:review",
           onOutcome: {again: {nextStep: fix}, ok: {action: exit, reason: done}}}
  fix: {outcomes: [again, ok], prompt: "STEP:fix", model: opus,
        onOutcome: {again: {nextStep: review}, ok: {action: exit, reason: done}}}
"""
LOOPS = recipe("""
    context: {items: [1, 2, 3], going: "yes"}
    steps:
      - {id: each, foreach: "{{items}}", agent: helper, prompt: "STEP:each"}
      - id: rounds
        while_condition: "{{going}} == 'yes'"
        max_while_iterations: 5
        while_steps: [{id: round, agent: helper, prompt: "STEP:round"}]
      - {id: last, agent: helper, prompt: "STEP:last"}
""")
UNBOUNDED = """
version: "1.4"
name: trial
steps:
  - {name: list, command: [cat, list.txt], output_capture: lines}
  - name: each
    for_each:
      items_from: steps.list.lines
      steps: [{name: work, provider: claude, prompt: "STEP:work"}]
"""
GOTO = """
version: "1.4"
name: trial
LIMITS
steps:
  - {name: fix, provider: claude, prompt: "STEP:fix",
     check: {command: ["false"], rounds: 2}}
  - {name: test, command: ["false"], on: {failure: {goto: fix}}}
"""


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    return shop


def estimated(shop: Workshop, text: str) -> dict[str, Any]:
    shop.write("r.yaml", text)
    shown = shop.run("plan", "r.yaml", "--estimate", "--json").assert_success().stdout
    found: dict[str, Any] = json.loads(shown)
    return found


def calls(document: dict[str, Any]) -> list[tuple[str, str | None, int | None]]:
    return [(o["agent"], o["model"], o["calls"]) for o in document["worst"]["by_agent"]]


def test_visits_and_reminders_of_a_machine_count_by_agent_and_model(shop: Workshop) -> None:
    found = estimated(shop, CIRCLE)
    assert calls(found) == [("claude-code", "sonnet", 6), ("claude-code", "opus", 6)]
    assert (found["worst"]["calls"], found["worst"]["cost_usd"]) == (12, 3.0)
    assert found["expected"] == {"runs": 0, "usual_usd": None, "p95_usd": None}


def test_items_and_rounds_of_a_recipe_count(shop: Workshop) -> None:
    assert estimated(shop, LOOPS)["worst"]["calls"] == 3 + 5 + 1


def test_circles_and_rounds_of_checks_of_a_workflow_count(shop: Workshop) -> None:
    text = GOTO.replace("LIMITS", "limits: {visits: 4}")
    assert estimated(shop, text)["worst"]["calls"] == 4 * (1 + 2)
    assert estimated(shop, GOTO.replace("LIMITS", "limits: {calls: 7}"))["worst"]["calls"] == 7


def test_what_has_no_bound_is_said_to_have_none(shop: Workshop) -> None:
    found = estimated(shop, UNBOUNDED)
    assert (found["worst"]["calls"], found["worst"]["cost_usd"]) == (None, None)
    text = shop.run("plan", "r.yaml", "--estimate").assert_success().stdout
    assert "at worst:  calls without bound\n" in text
    dry = shop.run("run", "r.yaml", "--dry-run").assert_success().stderr
    assert "at worst:  calls without bound\n" in dry
    limited = UNBOUNDED.replace("name: trial", "name: trial\nlimits: {cost_usd: 2}")
    bounded = estimated(shop, limited)
    assert bounded["worst"]["cost_usd"] == 2


def test_earlier_runs_say_what_is_to_be_expected(shop: Workshop) -> None:
    shop.answers(rule("STEP", *({"text": "done", "cost": usd} for usd in (0.1, 0.5, 0.2))))
    for _ in range(3):
        shop.play(ONE)
    found = estimated(shop, ONE)
    assert found["expected"] == {"runs": 3, "usual_usd": 0.2, "p95_usd": 0.5}
    assert found["worst"]["cost_usd"] == 0.5
    dry = json.loads(shop.run("run", "r.yaml", "--dry-run", "--json").assert_success().stdout)
    assert dry["estimate"] == found
    asked = len(shop.calls())
    shop.run("run", "r.yaml", "--confirm-above", "0.49").assert_exit(2)
    assert len(shop.calls()) == asked
    shop.run("run", "r.yaml", "--confirm-above", "0.5").assert_success()
    limited = ("--confirm-above", "0.4", "--max-cost")
    shop.run("run", "r.yaml", *limited, "0.41").assert_exit(2)
    shop.run("run", "r.yaml", *limited, "0.4").assert_exit(6)


def test_what_did_not_do_the_whole_work_says_nothing_of_what_that_costs(shop: Workshop) -> None:
    """Twenty cheap trials would let a dear run pass."""
    two = ONE.replace("}]", '}, {id: two, agent: helper, prompt: "STEP:two"}]')
    price = {"text": "done", "cost": 0.4}
    shop.answers(rule("STEP:two", {**price, "fail": "auth"}, price), rule("STEP", price))
    parked = shop.play(two, "--max-cost", "0.5", exit_code=6)
    shop.play(two, exit_code=1)
    found = estimated(shop, two)
    assert found["expected"] == {"runs": 0, "usual_usd": None, "p95_usd": None}
    assert found["worst"]["cost_usd"] == 0.8
    shop.play(two)
    assert estimated(shop, two)["expected"] == {"runs": 1, "usual_usd": 0.8, "p95_usd": 0.8}
    shop.run("resume", parked.run_id, "--max-cost", "5", "--allow-concurrent").assert_success()
    shop.answers(rule("STEP:two", {**price, "cost": 9, "fail": "auth"}), rule("STEP", price))
    shop.play(two, exit_code=1)
    dear = {"runs": 3, "usual_usd": 0.8, "p95_usd": 9.4}
    assert estimated(shop, two)["expected"] == dear, "it takes at least so much"


def test_a_step_alone_is_no_earlier_run(shop: Workshop) -> None:
    text = GOTO.replace("LIMITS", "limits: {visits: 4}")
    shop.write("r.yaml", text)
    shop.run("run-step", "fix", "--workflow", "r.yaml")
    assert estimated(shop, text)["expected"]["runs"] == 0


@pytest.mark.parametrize(
    ("text", "exit_code", "worst_usd"),
    [
        # What was never asked is taken to cost the guess.
        (LOOPS, 3, 3 * 0.1 + 5 * 0.1 + 0.25),
        (GOTO.replace("LIMITS", "limits: {visits: 4}"), 1, 4 * (1 + 2) * 0.1),
    ],
    ids=["items and rounds", "rounds of checks"],
)
def test_items_and_rounds_cost_what_earlier_ones_have(
    shop: Workshop, text: str, exit_code: int, worst_usd: float
) -> None:
    shop.answers(rule("STEP", cost=0.1))
    shop.play(text, exit_code=exit_code)
    assert estimated(shop, text)["worst"]["cost_usd"] == round(worst_usd, 4)


def test_without_a_terminal_nothing_is_started_that_may_cost_more(shop: Workshop) -> None:
    refused = shop.refuse(ONE, "--confirm-above", "0.2", exit_code=2)
    assert "the run may cost $0.25 (at worst), more than --confirm-above 0.2" in refused.stderr
    refused = shop.refuse(UNBOUNDED, "--confirm-above", "100", exit_code=2)
    assert "may cost without bound" in refused.stderr
    shop.play(ONE, "--confirm-above", "0.25")


def test_from_python_nothing_is_started_that_may_cost_more(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = shop.write("r.yaml", ONE)
    for name, value in shop.surroundings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="more than --confirm-above"):
        start(file, workspace=shop.folder, settings=RunSettings(confirm_above=0.2))
    assert not shop.runs_folder.exists()
    done = start(file, workspace=shop.folder, settings=RunSettings(confirm_above=0.25))
    assert (done.exit_code, len(shop.calls())) == (0, 1)


@pytest.mark.parametrize(("typed", "code", "asked"), [("y", 0, 1), ("n", 2, 0)])
def test_at_a_terminal_a_person_is_asked(
    shop: Workshop, typed: str, code: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrate.cli.confirming.has_terminal", lambda: True)
    monkeypatch.setattr("orchestrate.cli.terminal.read_line", lambda _: typed)
    shop.write("r.yaml", ONE)
    result = shop.run("run", "r.yaml", "--confirm-above", "0.1").assert_exit(code)
    assert "start it? [y/N]" in result.stderr
    assert len(shop.calls()) == asked


def test_files_that_call_each_other_are_counted_once_and_never_hang(shop: Workshop) -> None:
    """Two ways to each of 40 files are 2**40 ways; seven that call each other are without end."""
    twice = "steps:\n" + "".join(
        f"  - {{id: {name}, type: recipe, recipe: cNEXT.yaml}}\n" for name in "ab"
    )
    for number in range(1, 40):
        shop.write(f"c{number}.yaml", recipe(twice.replace("NEXT", str(number + 1))))
    shop.write("c40.yaml", ONE)
    unlimited = "limits: {steps: 1000000000000000}\n"
    found = estimated(shop, recipe(unlimited + twice.replace("NEXT", "1")))
    assert found["worst"]["calls"] == 2**40
    each = "".join(f"  - {{id: s{n}, type: recipe, recipe: k{n}.yaml}}\n" for n in range(7))
    for number in range(7):
        text = f'steps:\n{each}  - {{id: one, agent: helper, prompt: "STEP:one"}}\n'
        shop.write(f"k{number}.yaml", recipe(text))
    assert estimated(shop, recipe(f"steps:\n{each}"))["worst"]["calls"] == 100, "steps of a run"


def test_a_list_that_a_caller_or_a_round_sets_is_not_known_before(shop: Workshop) -> None:
    shop.write("child.yaml", recipe("""
        context: {list: []}
        steps: [{id: each, foreach: "{{list}}", agent: helper, prompt: "STEP:x"}]
    """))  # fmt: skip
    found = estimated(
        shop,
        recipe("""
        context: {more: []}
        steps:
          - {id: look, type: bash, command: "ls", output: names}
          - {id: call, type: recipe, recipe: child.yaml, context: {list: "{{names}}"}}
    """),
    )
    assert found["worst"]["calls"] == 100, "so many steps has a run at most"
    assert estimated(shop, (shop.folder / "child.yaml").read_text())["worst"]["calls"] == 0


def test_a_stand_in_costs_nothing_however_often_it_is_asked(shop: Workshop) -> None:
    shop.write("r.yaml", UNBOUNDED)
    flags = ("--dry-run", "--json", "--backend", "rehearsal")
    found = shop.run("run", "r.yaml", *flags).assert_success().json()["estimate"]["worst"]
    assert (found["calls"], found["cost_usd"]) == (None, 0)
    shop.play(ONE)
    flags = ("--backend", "rehearsal", "--confirm-above", "0.001")
    shop.run("run", "r.yaml", *flags).assert_success()  # whatever earlier runs have cost
    shop.run("run", "r.yaml", *flags[2:]).assert_exit(2)
