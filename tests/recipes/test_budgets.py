"""Language §5: limits in every file and by flags; what they end, what they park, how it goes on."""

from __future__ import annotations

import json

import pytest

from tests.promises.processes import wait_until
from tests.recipes.fakes import Workshop, recipe, rule

DONE = '{"outcome": "complete"}'
MACHINE = """\
id: trial
label: Trial
description: A trial of ours
{more}
initialStep: one
steps:
  one:
    prompt: "STEP:one"
    outcomes: [complete, other]
    onOutcome:
      complete: {{nextStep: two}}
      other: {{action: exit, reason: gave-up}}
  two:
    prompt: "STEP:two"
    outcomes: [complete, other]
    onOutcome:
      complete: {{nextStep: three}}
      other: {{action: exit, reason: gave-up}}
  three:
    prompt: "STEP:three"
    outcomes: [complete, other]
    onOutcome:
      complete: {{action: exit, reason: done}}
      other: {{action: exit, reason: gave-up}}
"""
WORKFLOW = """\
version: "1.4"
name: trial
{more}
steps:
  - {{name: one, provider: claude, prompt: "STEP:one"}}
  - {{name: two, provider: claude, prompt: "STEP:two"}}
  - {{name: three, provider: claude, prompt: "STEP:three"}}
"""
RECIPE = recipe("""
    {more}
    steps:
      - {{id: one, agent: helper, prompt: "STEP:one"}}
      - {{id: two, agent: helper, prompt: "STEP:two"}}
      - {{id: three, agent: helper, prompt: "STEP:three"}}
""")
FILES = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}
ALL = pytest.mark.parametrize("dialect", list(FILES))
# A call of the fake costs $0.006 and takes 1100 tokens.
GUESS = "costs: {guess_usd: 0.006}\n"
BUDGETS = [
    ("calls: 2", "max-calls", "4", "limits.calls is reached: 2 of 2 calls made"),
    ("cost_usd: 0.016", "max-cost", "1", "limits.cost_usd is reached: $0.012 of $0.016 spent"),
    ("tokens: 3000", "max-tokens", "9999", "limits.tokens is reached: 2200 of 3000 tokens used"),
]


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    shop.answers(rule("STEP", DONE))
    shop.write(".orchestrate/config.yaml", GUESS)
    return shop


@ALL
@pytest.mark.parametrize(("limit", "flag", "more", "words"), BUDGETS)
def test_l5_a_budget_parks_the_run_and_resume_with_a_higher_one_goes_on(
    shop: Workshop, dialect: str, limit: str, flag: str, more: str, words: str
) -> None:
    text = FILES[dialect].format(more=f"limits: {{{limit}}}")
    played = shop.play(text, exit_code=6)
    assert shop.asked() == ["one", "two"]
    assert played.state["status"] == "paused"
    assert words in played.state["reason"]
    assert f"--{flag}" in played.state["reason"]
    assert f"resume {played.run_id} --{flag} " in played.result.stderr
    again = shop.go_on(exit_code=6)
    assert shop.asked() == ["one", "two"], again.result.stderr
    done = shop.go_on("resume", "latest", f"--{flag}", more)
    assert shop.asked() == ["one", "two", "three"]
    assert done.state["status"] == "completed"


@ALL
@pytest.mark.parametrize(("limit", "flag", "more", "words"), BUDGETS)
def test_l5_a_flag_wins_over_the_file_and_the_file_over_the_configuration(
    shop: Workshop, dialect: str, limit: str, flag: str, more: str, words: str
) -> None:
    shop.write(".orchestrate/config.yaml", f"{GUESS}limits: {{{limit}}}\n")
    played = shop.play(FILES[dialect].format(more=""), exit_code=6)
    assert words in played.state["reason"]
    key = limit.partition(":")[0]
    shop.play(FILES[dialect].format(more=f"limits: {{{key}: {more}}}"))
    shop.play(FILES[dialect].format(more=f"limits: {{{limit}}}"), f"--{flag}", more)
    shop.write(".orchestrate/config.yaml", GUESS)
    shop.play(FILES[dialect].format(more=""), f"--{flag}", limit.split()[1], exit_code=6)


def test_l5_a_variable_of_the_environment_sets_a_default(shop: Workshop) -> None:
    plain = RECIPE.format(more="")
    shop.play(plain, exit_code=6, env={"ORCHESTRATE_MAX_CALLS": "2"})
    refused = shop.run("run", "r.yaml", env={"ORCHESTRATE_MAX_CALLS": "0"}).assert_exit(5)
    assert "ORCHESTRATE_MAX_CALLS" in refused.stderr
    shop.run("run", "r.yaml", env={"ORCHESTRATE_MAX_TIME": "1h"}).assert_success()


@ALL
def test_l5_steps_end_the_run_and_resume_with_more_goes_on(shop: Workshop, dialect: str) -> None:
    played = shop.play(FILES[dialect].format(more="limits: {steps: 2}"), exit_code=3)
    assert played.state["status"] == "failed"
    assert "--max-steps" in played.result.stderr
    shop.go_on("resume", "latest", "--max-steps", "5")
    assert shop.asked() == ["one", "two", "three"]


@ALL
def test_l5_time_parks_the_run_and_does_not_count_the_pause(shop: Workshop, dialect: str) -> None:
    shop.answers(rule("STEP:one", {"text": DONE, "delay": 0.6}), rule("STEP", DONE))
    text = FILES[dialect].format(more="limits: {time: 0.5}")
    played = shop.play(text, exit_code=6)
    assert shop.asked() == ["one"]
    assert "limits.time is reached" in played.state["reason"]
    shop.go_on("resume", "latest", "--max-time", "1h")
    assert shop.asked() == ["one", "two", "three"]


def test_l5_commands_that_use_up_the_time_are_warned_of_it_too(shop: Workshop) -> None:
    text = WORKFLOW.format(more="limits: {time: 1s}").replace(
        'name: one, provider: claude, prompt: "STEP:one"', 'name: one, command: [sleep, "1"]'
    )
    stderr = shop.play(text, exit_code=6).result.stderr
    assert stderr.count("warning: limits.time: 1") == 1, stderr


def test_l5_what_an_agent_did_while_nobody_watched_is_work(shop: Workshop) -> None:
    """The run is killed as soon as its agent is at work, which ends by itself."""
    shop.answers(rule("STEP:one", {"text": DONE, "delay": 1.5}), rule("STEP", DONE))
    shop.write("r.yaml", RECIPE.format(more="limits: {time: 1}"))
    with shop.started("run", "r.yaml") as running:
        shop.await_calls(1, "one")
        running.kill()
        running.wait()
    wait_until(lambda: shop.calls("one")[0].end is not None, "the agent was ended with the run")
    played = shop.go_on("resume", "latest", exit_code=6)
    assert "limits.time is reached" in played.state["reason"]
    assert shop.asked() == ["one"]
    shop.go_on("resume", "latest", "--max-time", "1h")
    assert shop.asked() == ["one", "two", "three"]


def test_l5_at_most_so_many_calls_in_a_parallel_loop(shop: Workshop) -> None:
    text = recipe("""
        limits: {calls: 5}
        context: {items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:i{{item}}", collect: all}
    """)
    played = shop.play(text, "--max-parallel", "16", exit_code=6)
    assert len(shop.asked()) == 5
    assert all(call.end is not None for call in shop.calls()), "what was paid for was ended"
    shop.go_on("resume", "latest", "--max-calls", "16")
    assert len(shop.asked()) == len(set(shop.asked())) == 16
    assert played.state["reason"].startswith("limits.calls")


def test_l5_the_budget_of_a_called_recipe_is_the_calls_own(shop: Workshop) -> None:
    shop.write("child.yaml", recipe("""
        limits: {calls: 1}
        steps:
          - {id: a, agent: helper, prompt: "STEP:a"}
          - {id: b, agent: helper, prompt: "STEP:b"}
    """))  # fmt: skip
    text = recipe("""
        steps:
          - {id: first, agent: helper, prompt: "STEP:first"}
          - {id: call, type: recipe, recipe: child.yaml}
    """)
    played = shop.play(text, exit_code=6)
    assert shop.asked() == ["first", "a"]
    assert "limits.calls of child.yaml" in played.state["reason"]
    shop.go_on("resume", "latest", "--max-calls", "9")
    assert shop.asked() == ["first", "a", "b"]


def test_l5_calls_of_sub_recipes_count_into_the_runs(shop: Workshop) -> None:
    child = recipe('steps: [{id: a, agent: helper, prompt: "STEP:a"}]')
    shop.write("child.yaml", child)
    text = recipe("""
        limits: {calls: 2}
        steps:
          - {id: one, type: recipe, recipe: child.yaml}
          - {id: two, type: recipe, recipe: child.yaml}
          - {id: three, type: recipe, recipe: child.yaml}
    """)
    shop.play(text, exit_code=6)
    assert shop.asked() == ["a", "a"]


def test_l5_retries_and_reminders_are_calls(shop: Workshop) -> None:
    shop.answers(rule("STEP:one", "no outcome at all", DONE), rule("", DONE))
    shop.play(MACHINE.format(more="limits: {calls: 1}"), exit_code=6)
    assert len(shop.calls()) == 1
    shop.go_on("resume", "latest", "--max-calls", "2", exit_code=6)
    assert len(shop.calls()) == 2


def test_l5_unknown_costs_are_named_not_zero(shop: Workshop) -> None:
    shop.write("tool.sh", "cat >/dev/null; echo hello")
    text = """
        version: "1.4"
        name: trial
        limits: {cost_usd: 0.017}
        providers:
          quiet: {command: [sh, tool.sh], input_mode: stdin}
        steps:
          - {name: silent, provider: quiet, prompt: "STEP:silent"}
          - {name: one, provider: claude, prompt: "STEP:one"}
          - {name: two, provider: claude, prompt: "STEP:two"}
    """
    played = shop.play(text, exit_code=6)
    assert "$0.012 of $0.017 spent, 1 call did not say" in played.state["reason"]


CIRCLE = """
    version: "1.4"
    name: trial
    {more}
    steps:
      - {{name: Work, provider: claude, prompt: "STEP:work"}}
      - {{name: Test, command: ["false"], on: {{failure: {{goto: Work}}}}}}
"""


def test_l5_visits_end_a_workflow_and_resume_with_more_goes_on(shop: Workshop) -> None:
    played = shop.play(CIRCLE.format(more="limits: {visits: 3}"), exit_code=3)
    assert shop.asked() == ["work"] * 3
    assert played.state["reason"] == "max-step-visits-exceeded:Work"
    assert "--max-visits" in played.result.stderr
    shop.go_on("resume", "latest", "--max-visits", "4", exit_code=3)
    assert shop.asked() == ["work"] * 4


WHILE = recipe("""
    context: {score: 0}
    limits: {visits: 3}
    steps:
      - id: Polish
        while_condition: "{{score}} < 8"
        while_steps: [{id: rate, prompt: "STEP:work", output: score}]
""")
REPEAT = """
    version: "1.4"
    name: trial
    limits: {visits: 3}
    steps:
      - name: Polish
        repeat:
          until: {equals: {left: "${steps.Rate.output}", right: "8"}}
          max: 20
          steps: [{name: Rate, provider: claude, prompt: "STEP:work"}]
"""


@pytest.mark.parametrize("text", [WHILE, REPEAT], ids=["while", "repeat"])
def test_l5_each_round_of_a_loop_is_a_visit(shop: Workshop, text: str) -> None:
    """A recipe cannot go back otherwise, so that the limit would hold nothing."""
    played = shop.play(text, rules=(rule("STEP:work", "1", "2", "3", "4", "5", "8"),), exit_code=3)
    assert shop.asked() == ["work"] * 3
    assert played.state["reason"] == "max-step-visits-exceeded:Polish"
    assert f"resume {played.state['run_id']} --max-visits 6\n" in played.result.stderr
    shop.go_on(exit_code=3)
    shop.go_on("resume", "latest", "--max-visits", "4", exit_code=3)
    assert shop.asked() == ["work"] * 4
    assert shop.go_on("resume", "latest", "--max-visits", "6").state["status"] == "completed"
    assert shop.asked() == ["work"] * 6
    told = shop.run("plan", "r.yaml", "--estimate", "--json").assert_success().json()
    assert told["worst"]["calls"] == 3


def test_l5_a_circle_of_a_workflow_has_a_brake_by_default(shop: Workshop) -> None:
    text = CIRCLE.format(more="")
    shop.write("r.yaml", text)
    validated = shop.run("validate", "r.yaml").assert_success()
    assert "W107" in validated.stdout + validated.stderr
    plan = json.loads(shop.run("plan", "r.yaml", "--json").stdout)
    nodes = plan["plans"][0]["blocks"][0]["nodes"]
    assert {node["id"]: node["most_visits"] for node in nodes} == {"Work": 100, "Test": None}
    shop.write("r.yaml", CIRCLE.format(more="limits: {calls: 9}"))
    validated = shop.run("validate", "--strict", "r.yaml").assert_success()


def test_l5_the_brake_holds_for_loops_on_a_circle_and_for_no_command(shop: Workshop) -> None:
    text = """
        version: "1.4"
        name: trial
        steps:
          - name: Poll
            command: ["true"]
          - name: Each
            for_each: {items: [1], steps: [{name: Ask, provider: claude, prompt: "STEP:ask"}]}
          - {name: Test, command: ["false"], on: {failure: {goto: Poll}}}
    """
    shop.write("r.yaml", text)
    plan = json.loads(shop.run("plan", "r.yaml", "--json").stdout)["plans"][0]
    nodes = [node for block in plan["blocks"] for node in block["nodes"]]
    assert {node["id"]: node["most_visits"] for node in nodes} == {
        "Poll": None, "Each": 100, "Each/Ask": None, "Test": None,
    }  # fmt: skip
    played = shop.play(text, "--max-visits", "2", exit_code=3)
    assert shop.asked() == ["ask"] * 2
    assert played.state["reason"] == "max-step-visits-exceeded:Poll"
