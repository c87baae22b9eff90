"""Templates: reserved variables, types, and variables that nothing has set."""

from __future__ import annotations

import re

import pytest

from tests.conftest import TimePasses
from tests.recipes.fakes import Workshop, recipe, rule

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\Z")


def test_b_reserved_every_variable_has_its_value(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            steps:
              - {id: first, agent: helper, prompt: "STEP:first {{step.id}}={{step.index}}"}
              - id: second
                agent: helper
                prompt: |
                  STEP:second
                  {{recipe.name}}|{{recipe.version}}|{{recipe.description}}
                  {{session.id}}
                  {{session.started}}
                  {{session.project}}
                  {{step.id}}|{{step.index}}
        """),
    )
    assert shop.prompt("first") == "STEP:first first=0"
    _, about, run_id, started, project, step = shop.prompt("second").splitlines()
    assert about == "trial|1.2.3|A trial of ours"
    assert run_id == played.run_id
    assert _TIME.match(started)
    assert started == played.state["started_at"]
    assert re.fullmatch(r"[A-Za-z0-9-]+", project)
    assert project.endswith("workspace")
    assert step == "second|1"


def test_b_reserved_step_facts_hold_in_stages_loops_and_after_gates(
    shop: Workshop, time_passes: TimePasses
) -> None:
    shop.play(
        recipe("""
            context: {files: [a, b]}
            stages:
              - name: one
                steps: [{id: s1, agent: helper, prompt: "STEP:s1 {{step.index}}"}]
                approval: {required: true, prompt: "ok?", timeout: 3600, default: approve}
              - name: two
                steps:
                  - {id: s2, foreach: "{{files}}", agent: helper,
                     prompt: "STEP:s2-{{item}} {{step.id}} {{step.index}}"}
                  - {id: s3, agent: helper, prompt: "STEP:s3 {{step.index}}"}
        """),
        exit_code=6,
    )
    time_passes(3601)
    shop.go_on()
    assert [call.text for call in shop.calls()] == [
        "STEP:s1 0",
        "STEP:s2-a s2 1",
        "STEP:s2-b s2 1",
        "STEP:s3 2",
    ]


def test_r8_session_id_is_the_run_id_in_sub_recipes_too(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe(
            """
            steps: [{id: in, agent: helper,
                     prompt: "STEP:in {{session.id}} {{recipe.name}} {{step.index}}"}]
            """,
            name="child",
        ),
    )
    played = shop.play(
        recipe("""
            steps:
              - {id: skip, agent: helper, prompt: "STEP:out {{session.id}}"}
              - {id: call, type: recipe, recipe: child.yaml}
        """)
    )
    assert shop.prompt("out") == f"STEP:out {played.run_id}"
    assert shop.prompt("in") == f"STEP:in {played.run_id} child 0"


def test_b_variables_a_step_output_wins_over_the_context(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {x: from context}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a {{x}}", output: x}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
        """),
        rules=(rule("STEP:a", "from step"),),
    )
    assert [call.text for call in shop.calls()] == ["STEP:a from context", "STEP:b from step"]


def test_r8_1_values_render_as_text_or_json(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context:
              word: plain "text" {{word}} ${x} $(y)
              yes_: true
              no_: false
              none_: null
              whole: 3
              part: 2.5
              list: [1, two, {three: 3}]
              deep: {a: {b: [{c-d: found}, x]}}
            steps:
              - id: a
                agent: helper
                prompt: |
                  STEP:a
                  {{word}}
                  {{ yes_ }} {{no_}} {{none_}} {{whole}} {{  part  }}
                  {{list}}
                  {{deep}}
                  {{deep.a.b.0.c-d}} {{list.2.three}}
        """)
    )
    assert shop.prompt("a").splitlines() == [
        "STEP:a",
        'plain "text" {{word}} ${x} $(y)',
        "true false null 3 2.5",
        '[1,"two",{"three":3}]',
        '{"a":{"b":[{"c-d":"found"},"x"]}}',
        "found 3",
    ]


def test_r8_1_a_value_is_never_scanned_again(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {secret: do not show}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a", output: x}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
        """),
        rules=(rule("STEP:a", "{{secret}} {{session.id}}"),),
    )
    assert shop.prompt("b") == "STEP:b {{secret}} {{session.id}}"


def test_r8_1_a_lone_variable_keeps_its_type(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            context: {list: [], number: 0, flag: false, text: "", nested: {}}
            steps:
              - {id: each, foreach: "{{list}}", agent: helper, prompt: "STEP:{{item.name}}"}
              - {id: show, agent: helper,
                 prompt: "STEP:show {{number}} {{flag}} {{text}} {{nested}}"}
        """),
    )
    played = shop.play(
        recipe("""
            context: {list: [{name: a}, {name: b}], number: 7, flag: true}
            steps:
              - id: call
                type: recipe
                recipe: child.yaml
                context:
                  list: "{{list}}"
                  number: "{{ number }}"
                  flag: "{{flag}}"
                  text: "{{number}} things"
                  nested: {inner: ["{{flag}}", "{{number}}!", 1]}
                output: result
        """)
    )
    assert shop.asked() == ["a", "b", "show"]
    assert shop.prompt("show") == 'STEP:show 7 true 7 things {"inner":[true,"7!",1]}'
    assert played.context["result"] == {
        "list": [{"name": "a"}, {"name": "b"}],
        "number": 7,
        "flag": True,
        "text": "7 things",
        "nested": {"inner": [True, "7!", 1]},
    }


@pytest.mark.parametrize(
    ("template", "available"),
    [
        ("{{missing}}", ("word", "map", "report")),
        # Of a member, what the variable has instead.
        ("{{word.inner}}", ("word is text",)),
        ("{{map.b}}", ("map has: a",)),
    ],
)
def test_b_undefined_variables_fail_the_step_and_name_what_there_is(
    shop: Workshop, template: str, available: tuple[str, ...]
) -> None:
    played = shop.play(
        recipe(f"""
            context: {{word: text, map: {{a: 1}}}}
            steps:
              - {{id: first, agent: helper, prompt: "STEP:first", output: report}}
              - id: second
                condition: "{{{{word}}}} == 'text'"  # else it is certain, and refused beforehand
                agent: helper
                prompt: "STEP:second {template}"
        """),
        exit_code=1,
    )
    assert shop.asked() == ["first"]
    message = played.message("second")
    assert template in message
    for name in available:
        assert name in message.partition(template)[2], message
    assert message in played.result.stderr
    assert played.step("second")["exit_code"] == 2


def test_b_undefined_all_of_them_are_named_at_once(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {x: "1"}
            steps:
              - {id: a, agent: helper, condition: "{{x}} == '1'", prompt: "{{one}} {{two}} {{one}}"}
        """),
        exit_code=1,
    )
    message = played.message("a")
    assert message.count("{{one}}") == 1
    assert "{{two}}" in message


def test_r8_4_an_optional_variable_is_empty_when_undefined(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {map: {a: 1}, word: here}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a [{{gone?}}] [{{map.b?}}] [{{ word? }}]"}
        """)
    )
    assert shop.prompt("a") == "STEP:a [] [] [here]"


def test_r8_4_the_use_of_a_skipped_steps_output_says_so(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {mode: slow}
            steps:
              - {id: fix, condition: "{{mode}} == 'fast'", agent: helper, prompt: x, output: fixes}
              - {id: may, agent: helper, prompt: "STEP:may [{{fixes?}}]"}
              - {id: report, agent: helper, prompt: "STEP:report {{fixes}}"}
        """),
        exit_code=1,
    )
    assert shop.prompt("may") == "STEP:may []"
    assert "'fix'" in played.message("report")
    assert "was skipped" in played.message("report")
    assert "fixes" not in played.context


def test_r8_4_the_use_of_a_failed_steps_output_says_so(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            steps:
              - {id: try, agent: helper, prompt: "STEP:try", output: x, on_error: continue}
              - {id: use, agent: helper, prompt: "STEP:use {{x}}"}
        """),
        rules=(rule("STEP:try", fail="crash"),),
        exit_code=1,
    )
    assert "'try'" in played.message("use")
    assert "failed" in played.message("use")


def test_r8_4_an_output_that_was_set_before_survives_a_skip(shop: Workshop) -> None:
    """The output of a skipped step stays as it is, and that may be an earlier step's."""
    shop.play(
        recipe("""
            context: {mode: slow}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one", output: x}
              - {id: two, condition: "{{mode}} == 'fast'", agent: helper, prompt: b, output: x}
              - {id: three, agent: helper, prompt: "STEP:three {{x}}"}
        """),
        rules=(rule("STEP:one", "first"),),
    )
    assert shop.prompt("three") == "STEP:three first"


def test_r5_context_from_file_and_flag(shop: Workshop) -> None:
    """The file's context < --context-file, which keeps types < --context, which is text."""
    shop.write("given.json", '{"b": [1, 2], "c": 2}')
    shop.play(
        recipe("""
            context: {a: 1, b: 1, c: 1}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a {{a}} {{b.1}} {{c}}"}
        """),
        "--context-file",
        "given.json",
        "--context",
        "c=three=3",
    )
    assert shop.prompt("a") == "STEP:a 1 2 three=3"


def test_b_reserved_names_cannot_be_set_from_outside(shop: Workshop) -> None:
    text = recipe("steps: [{id: a, agent: helper, prompt: x}]")
    said = shop.refuse(text, "--context", "session=mine", exit_code=2)
    assert "reserved" in said.stderr
