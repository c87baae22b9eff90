"""Number 22: a variable that is certain to have no value stops a run before it costs anything."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from orchestrate.testing import Project
from tests.recipes.fakes import Workshop, recipe, rule

TOPIC = recipe("""
    steps:
      - {id: a, agent: helper, prompt: "STEP:a"}
      - {id: b, agent: helper, prompt: "STEP:b {{topic}}"}
""")


def test_truth_22_a_run_without_the_value_is_refused_at_its_place(shop: Workshop) -> None:
    said = shop.refuse(TOPIC, exit_code=2)
    assert "r.yaml:6:44: error E125: {{topic}}" in said.stderr
    assert "^^^^^^^^^" in said.stderr
    assert "--context topic=" in said.stderr
    shop.run("run", "r.yaml", "--dry-run").assert_exit(2)
    shop.run("run", "r.yaml", "-d").assert_exit(2)
    assert shop.asked() == []


@pytest.mark.parametrize("flag", ["--context", "-i"])
def test_truth_22_the_way_out_that_is_named_works(shop: Workshop, flag: str) -> None:
    played = shop.play(TOPIC, flag, "topic=frogs")
    assert shop.prompt("b").startswith("STEP:b frogs")
    assert "W103" not in played.result.stderr


def test_truth_22_validate_warns_and_checks_with_given_values(shop: Workshop) -> None:
    shop.write("r.yaml", TOPIC)
    assert "W103" in shop.run("validate", "r.yaml").assert_success().stdout
    given = shop.run("validate", "r.yaml", "--context", "topic=x").assert_success()
    assert "W103" not in given.stdout
    other = shop.run("validate", "r.yaml", "--context", "other=x").assert_exit(2)
    assert "error E125" in other.stdout
    shop.write("values.json", '{"topic": "x"}')
    shop.run("validate", "r.yaml", "--context-file", "values.json").assert_success()


@pytest.mark.parametrize(
    "steps",
    [
        # Set by a later step only.
        '[{id: a, agent: helper, prompt: "{{x}}"}, {id: b, agent: helper, prompt: B, output: x}]',
        # In the list of a loop, and in its body.
        '[{id: a, agent: helper, foreach: "{{xs}}", prompt: "STEP:a {{item}}"}]',
        '[{id: a, agent: helper, foreach: "{{mode}}", prompt: "STEP:a {{itm}}"}]',
        # In what is passed to a recipe, and in the recipe itself.
        '[{id: a, type: recipe, recipe: child.yaml, context: {y: "{{x}}"}}]',
        "[{id: a, type: recipe, recipe: child.yaml}]",
        # In conditions, which are always looked at, and in what follows a round.
        """[{id: a, agent: helper, prompt: "STEP:a", condition: "{{mode}} and {{x}} == 1"}]""",
        '[{id: a, agent: helper, prompt: A, while_condition: "{{mode}}", break_when: "{{x}}"}]',
        """[{id: a, agent: helper, prompt: "STEP:a", while_condition: "{{mode}}",
             update_context: {y: "{{x}}"}}]""",
        """[{id: a, while_condition: "{{mode}}",
             while_steps: [{id: b, agent: helper, prompt: "STEP:b {{x}}"}]}]""",
        # In a loop of a round.
        """[{id: a, while_condition: "{{mode}}", while_steps: [
             {id: b, agent: helper, foreach: "{{mode}}", prompt: "STEP:b {{x}}"}]}]""",
    ],
)
def test_truth_22_every_place_of_a_recipe_counts(shop: Workshop, steps: str) -> None:
    shop.write("child.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:in {{y}}"}]'))
    said = shop.refuse(recipe(f"context: {{mode: [a]}}\nsteps: {steps}"), exit_code=2)
    assert "error E125" in said.stderr


@pytest.mark.parametrize(
    "steps",
    [
        '[{id: a, agent: helper, prompt: "STEP:a {{x?}}"}]',
        """[{id: a, agent: helper, prompt: "STEP:a", output: x},
            {id: b, agent: helper, prompt: "STEP:b {{x}}"}]""",
        """[{id: a, agent: helper, prompt: "STEP:a", condition: "{{mode}} == 'long'"}]""",
        '[{id: a, type: recipe, recipe: child.yaml, context: {y: "1"}}]',
        # What a loop of a round has set is there behind the rounds.
        """[{id: a, while_condition: "{{mode}} == 'short'", update_context: {mode: long},
             while_steps: [
               {id: b, agent: helper, foreach: "{{list}}", prompt: "STEP:b", collect: x},
               {id: c, agent: helper, foreach: "{{x}}", prompt: "STEP:c", output: y}]},
            {id: d, agent: helper, prompt: "STEP:d {{x}} {{y}}"}]""",
    ],
)
def test_truth_22_what_may_be_defined_stays_a_warning(shop: Workshop, steps: str) -> None:
    shop.write("child.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:in {{y}}"}]'))
    shop.play(recipe(f"context: {{mode: short, list: [1]}}\nsteps: {steps}"))


def test_truth_22_a_stage_s_condition_and_the_outputs_count(shop: Workshop) -> None:
    steps = 'steps: [{id: %s, agent: helper, prompt: "STEP:%s"}]'
    staged = f"""
        outputs: {{found: "{{{{y}}}}"}}
        stages:
          - name: one
            {steps % ("a", "a")}
          - name: two
            condition: "{{{{x}}}}"
            {steps % ("b", "b")}
    """
    said = shop.refuse(recipe(staged), exit_code=2).stderr
    assert "r.yaml:9:17: error E125: {{x}} has no value when stage 'two' begins" in said
    assert "r.yaml:4:19: error E125: {{y}} has no value for the outputs" in said
    shop.play(recipe(staged), "-i", "x=", "-i", "y=1")


def test_truth_22_a_check_is_named_once_by_its_step(shop: Workshop) -> None:
    said = shop.refuse(
        recipe("""
            steps:
              - {id: a, agent: helper, prompt: "STEP:a", check: {command: [test, "{{x}}"]}}
        """),
        exit_code=2,
    ).stderr
    assert said.count("E125") == 1
    assert "when step 'a' needs it" in said


@pytest.mark.parametrize(
    "rest",
    [
        'steps: [{name: A, command: [touch, started], when: {exists: "${context.x}"}}]',
        """steps:
          - name: A
            repeat:
              until: {equals: {left: "${context.x}", right: 1}}
              max: 2
              steps: [{name: B, command: [touch, started]}]""",
        """outputs: {found: "${context.x}"}
        steps: [{name: A, command: [touch, started]}]""",
    ],
)
def test_truth_22_conditions_and_outputs_of_a_workflow_count(shop: Workshop, rest: str) -> None:
    shop.write("w.yaml", f'version: "1.4"\n{dedent("        " + rest)}\n')
    assert "error E125: ${context.x}" in shop.run("run", "w.yaml").assert_exit(2).stderr
    assert not (shop.folder / "started").exists()
    shop.run("run", "w.yaml", "-i", "x=1").assert_success()


def test_truth_22_a_workflow_s_context_counts_too(shop: Workshop) -> None:
    shop.write("w.yaml", """
        version: "1.1"
        steps:
          - {name: One, command: [touch, started]}
          - {name: Two, command: [echo, "${context.release}"]}
    """)  # fmt: skip
    said = shop.run("run", "w.yaml").assert_exit(2)
    assert "w.yaml:4:34: error E125: ${context.release}" in said.stderr
    assert not (shop.folder / "started").exists()
    shop.run("run", "w.yaml", "-i", "release=1").assert_success()


def test_truth_22_a_result_that_cannot_be_there_is_invalid_in_validate_too(shop: Workshop) -> None:
    shop.write("w.yaml", """
        version: "1.1"
        steps:
          - {name: One, command: [echo, "${steps.Two.output}"]}
          - {name: Two, command: ["true"]}
    """)  # fmt: skip
    assert "E125" in shop.run("validate", "w.yaml").assert_exit(2).stdout


# Values for a run that stopped for want of one.

LATER = recipe("""
    context: {mode: short}
    steps:
      - {id: a, agent: helper, prompt: "STEP:a", output: mode}
      - {id: b, agent: helper, prompt: "STEP:b {{topic}}", condition: "{{mode}} == 'long'"}
      - {id: c, agent: helper, prompt: "STEP:c {{topic}}", condition: "{{mode}} == 'long'"}
""")


def test_truth_22_resume_may_give_values_that_last(shop: Workshop) -> None:
    rules = (rule("STEP:a", "long"), rule("STEP:c", {"fail": "crash"}, "ok"))
    shop.play(LATER, rules=rules, exit_code=1)
    shop.run("resume", "latest").assert_exit(1)
    assert shop.asked() == ["a"]
    shop.run("resume", "latest", "-i", "topic=frogs").assert_exit(1)
    played = shop.go_on()
    assert played.context["topic"] == "frogs"
    assert [call.text.splitlines()[-1] for call in shop.calls()][1:] == [
        "STEP:b frogs", "STEP:c frogs", "STEP:c frogs",
    ]  # fmt: skip
    resumed = [event for event in played.events() if event["on"] == "run-resumed"]
    assert [event.get("context") for event in resumed] == [None, {"topic": "frogs"}, None]


def test_truth_22_given_values_are_masked_and_reserved_names_refused(shop: Workshop) -> None:
    shop.play(LATER, rules=(rule("STEP:a", "long"),), exit_code=1)
    said = shop.run("resume", "latest", "-i", "session=x").assert_exit(2)
    assert "reserved" in said.stderr
    shop.write("values.json", '{"topic": ["a", 1]}')
    played = shop.go_on("resume", "latest", "--context-file", "values.json")
    assert played.context["topic"] == ["a", 1]


def test_truth_22_a_restart_takes_all_values_along(shop: Workshop) -> None:
    shop.play(LATER, rules=(rule("STEP:a", "long"), rule("STEP:b", {"fail": "crash"}, "ok")),
              exit_code=1)  # fmt: skip
    shop.run("resume", "latest", "-i", "topic=frogs").assert_exit(1)
    played = shop.go_on("resume", "latest", "--force-restart", "-i", "extra=1")
    assert (played.context["topic"], played.context["extra"]) == ("frogs", "1")


def test_truth_22_every_use_is_shown_at_its_place(tmp_path: Path) -> None:
    text = """
        version: "1.1"
        steps:
          - {name: A, command: [echo, "${context.no}"]}
          - {name: B, command: [echo, b, "${context.no}"]}
    """
    refused = Project(tmp_path, {"w.yaml": text}).run("run", "w.yaml").assert_exit(2)
    assert "w.yaml:3:32: error E125" in refused.stderr
    assert "w.yaml:4:35: error E125" in refused.stderr
    assert refused.stderr.count("^^^^^^^^^^^^^") == 2


def test_truth_22_a_value_does_not_stand_in_for_what_a_step_has_found(shop: Workshop) -> None:
    shop.answers(rule("STEP:one", "ONE"), rule("STEP:two", {"fail": "auth"}, "ok"))
    text = recipe("""
        context: {who: nobody}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", output: x}
          - {id: two, agent: helper, prompt: "STEP:two {{x}} {{who}}"}
    """)
    shop.play(text, exit_code=1)
    refused = shop.run("resume", "latest", "--context", "x=HACK").assert_exit(2)
    assert "'x' is the result of step 'one'" in refused.stderr
    shop.run("resume", "latest", "--context", "who=me").assert_success()
    assert shop.calls("two")[-1].text.endswith("STEP:two ONE me")


CALLER = """
id: {id}
label: m
description: calls a recipe that lacks a value
initialStep: {first}
steps:
  ask:
    prompt: "STEP:ask"
    outcomes: [done, other]
    onOutcome:
      done: {{{next}}}
      other: {{action: exit, reason: other}}
  call:
    call: child.yaml
    with: {{z: "1"}}
    onOutcome:
      completed: {{action: exit, reason: done}}
      failed: {{action: exit, reason: failed, status: failed}}
"""
IN_W = """
version: "1.4"
name: w
steps:
  - {name: Ask, provider: claude, prompt: "STEP:ask"}
  - {name: Call, call: child.yaml, with: {z: "1"}}
"""


@pytest.mark.parametrize("caller", ["machine", "machine that is restarted as", "workflow"])
def test_truth_22_what_another_dialect_calls_counts_too(shop: Workshop, caller: str) -> None:
    child = recipe('steps: [{id: in, agent: helper, prompt: "STEP:in {{z}} {{y}}"}]')
    shop.write("child.yaml", child)
    machine = CALLER.format(id="m", first="ask", next="nextStep: call")
    if caller == "machine that is restarted as":
        other = CALLER.format(id="other", first="call", next="nextStep: call")
        shop.write("workflows/other.yaml", other.replace("child.yaml", "../child.yaml"))
        machine = CALLER.format(
            id="m", first="ask", next="action: restart-new-session, recipeId: other"
        ).partition("  call:\n")[0]
    shop.write("w.yaml", IN_W if caller == "workflow" else machine)
    said = shop.run("run", "w.yaml").assert_exit(2 if caller == "workflow" else 1)
    assert "error E125: {{y}}" in said.stderr
    assert "pass it under with: of the step that calls this file" in said.stderr
    assert shop.asked() == []
