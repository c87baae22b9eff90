"""Conditions: each operator, their order, and what an undefined variable does."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

VALUES = "context: {a: x, b: y, yes_: true, n: 3, o: {p: {q: deep}}, e: '', l: [1, a], "
VALUES += "ten: '10', nothing: null, none: [], zero: 0, no_: false, said_no: 'false'}"


def guarded(*conditions: str) -> str:
    """A recipe whose steps c0, c1, ... each have a condition."""
    lines = [VALUES, "steps:"]
    for number, condition in enumerate(conditions):
        quoted = condition.replace('"', '\\"')
        lines.append(f'  - {{id: c{number}, condition: "{quoted}", agent: helper, ')
        lines.append(f'     prompt: "STEP:c{number}"}}')
    return recipe("\n".join(lines))


TRUE = (
    "{{a}} == 'x'",
    '{{a}} == "x"',
    "{{a}} != 'y'",
    "'x' == {{a}}",
    "{{a}} != {{b}}",
    "{{o.p.q}} == 'deep'",
    "{{ yes_ }} == 'true'",
    "{{n}} == '3'",
    "{{e}} == ''",
    """{{l}} == '[1,"a"]'""",
    "{{a}} == 'x' and {{b}} == 'y'",
    "{{a}} == 'no' or {{b}} == 'y'",
    "{{a}} == 'and' or {{a}} != ' or '",
    # From left to right: (true or true) and false would be false, and-first would be true.
    "{{a}} == 'x' and {{b}} == 'no' or {{n}} == '3'",
    "{{a}} == 'no' or {{b}} == 'y' and {{n}} == '3'",
    "{{gone?}} == ''",
    "{{n}} == 3.0",
    "{{n}} > 2 and {{n}} <= 3",
    "{{ten}} > 9",
    "{{b}} > 'a'",
    "{{yes_}} == true",
    "{{nothing}} == null",
    "{{yes_}} and {{o}} and {{l}}",
    "not {{e}} and not {{no_}} and not {{nothing}} and not {{none}} and not {{zero}}",
    "not {{said_no}}",
    "not {{a}} == 'y'",
    "'a' in {{l}} and 1 in {{l}} and '1' in {{l}}",
    "{{a}} in ['x', 'z'] and {{a}} not in ['y']",
    "'ee' in {{o.p.q}}",
    "{{a}} == 'no' and ({{b}} == 'y' or {{a}} == 'x') or n == 3",
    "a == 'x' and o.p.q == 'deep'",
    "{{a}} == 'x' or ({{a}} == 'no' and {{b}} == 'no')",
)
FALSE = (
    "{{a}} == 'y'",
    "{{a}} != 'x'",
    "{{a}} == 'X'",
    "{{a}} == 'x '",
    "{{n}} == '3.0'",
    "{{a}} == 'x' and {{b}} == 'no'",
    "{{a}} == 'no' or {{b}} == 'no'",
    "{{a}} == 'x' or {{b}} == 'y' and {{n}} == '4'",
    "{{n}} == 4",
    "{{ten}} < 9",
    "{{n}} == '3.0'",
    "{{gone?}} > 1",
    "not ({{a}} == 'x' or {{b}} == 'no')",
    "{{a}} in {{l}} and {{b}} == 'y'",
    "'z' in {{o.p.q}}",
    "{{said_no}}",
    "not {{yes_}}",
)


def test_b_condition_every_operator_and_the_order_of_and_and_or(shop: Workshop) -> None:
    """B: the operators, evaluated left to right; both sides compare as text (rulings §8)."""
    played = shop.play(guarded(*TRUE, *FALSE))
    ran = {int(marker[1:]) for marker in shop.asked()}
    conditions = TRUE + FALSE
    assert [conditions[number] for number in sorted(ran)] == list(TRUE)
    skipped = {int(name[1:]) for name in played.skipped()}
    assert [conditions[number] for number in sorted(skipped)] == list(FALSE)


def test_b_condition_a_skipped_step_is_tracked_in_the_state(shop: Workshop) -> None:
    played = shop.play(guarded("{{a}} == 'y'"))
    assert played.state["skipped_steps"] == [
        {
            "id": "c0",
            "reason": "condition evaluated to false",
            "condition": "{{a}} == 'y'",
        }
    ]
    assert played.step("c0")["status"] == "skipped"
    assert shop.asked() == []


def test_b_condition_on_a_step_output_and_its_members(shop: Workshop) -> None:
    shop.play(
        recipe("""
            steps:
              - {id: scan, agent: helper, prompt: "STEP:scan", output: analysis}
              - {id: yes, condition: "{{analysis.severity}} == 'critical'", agent: helper,
                 prompt: "STEP:yes {{analysis.issues}}"}
              - {id: no, condition: "{{analysis.severity}} == 'low'", agent: helper,
                 prompt: "STEP:no"}
        """),
        rules=(rule("STEP:scan", '{"severity": "critical", "issues": ["a", "b"]}'),),
    )
    assert shop.asked() == ["scan", "yes"]
    assert shop.prompt("yes") == 'STEP:yes ["a","b"]'


@pytest.mark.parametrize(
    ("condition", "name", "available"),
    [
        ("{{missing}} == 'x'", "{{missing}}", "skipped"),
        ("{{a}} == 'x' or {{missing}} == 'x'", "{{missing}}", "skipped"),
        ("{{a.b}} == 'x'", "{{a.b}}", "a is text"),
    ],
)
def test_b_condition_an_undefined_variable_fails_the_recipe(
    shop: Workshop, condition: str, name: str, available: str
) -> None:
    """What nothing sets at all is refused before the start (truth 22)."""
    text = guarded("{{a}} == 'y'", condition, "{{a}} == 'x'")
    played = shop.play(text.replace('STEP:c0"', 'STEP:c0", output: missing'), exit_code=1)
    assert played.state["status"] == "failed"
    assert shop.asked() == []
    message = played.message("c1")
    assert name in message
    assert available in message.partition(name)[2], "what is available is not named"
    assert message in played.result.stderr


def test_b_condition_invalid_syntax_is_refused_before_the_start(shop: Workshop) -> None:
    for condition in ("{{a}} = 'x'", "{{a}} => 'x'", "not", "({{a}} == 'x'", "{{a}} == y"):
        shop.refuse(guarded(condition), exit_code=2)


def test_b_condition_of_a_loop_is_asked_once_before_it(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {go: 'true', stay: 'false', items: [1, 2]}
            steps:
              - {id: yes, condition: "{{go}} == 'true'", foreach: "{{items}}", agent: helper,
                 prompt: "STEP:yes-{{item}}", output: go, collect: all}
              - {id: no, condition: "{{stay}} == 'true'", foreach: "{{items}}", agent: helper,
                 prompt: "STEP:no", collect: none}
        """),
        rules=(rule("STEP:yes", "false"),),
    )
    assert shop.asked() == ["yes-1", "yes-2"]
    assert played.skipped() == {"no": "condition evaluated to false"}
    assert "none" not in played.context


def test_b_condition_of_a_sub_recipe(shop: Workshop) -> None:
    shop.write("child.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:in"}]'))
    played = shop.play(
        recipe("""
            context: {deep: 'false'}
            steps:
              - {id: no, condition: "{{deep}} == 'true'", type: recipe, recipe: child.yaml,
                 output: x}
              - {id: yes, condition: "{{deep}} != 'true'", type: recipe, recipe: child.yaml}
        """)
    )
    assert shop.asked() == ["in"]
    assert played.skipped() == {"no": "condition evaluated to false"}
    assert "x" not in played.context


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("{{a}} > 3", "text and a number have no order"),
        ("{{l}} < 3", "a list and a number have no order"),
        ("'x' in {{n}}", "the right side is a number, neither a list nor a text"),
    ],
)
def test_what_has_no_order_fails_the_step_and_says_so(
    shop: Workshop, condition: str, why: str
) -> None:
    played = shop.play(guarded(condition), exit_code=1)
    assert why in played.message("c0")
    assert shop.asked() == []
