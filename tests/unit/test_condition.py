"""Conditions of recipes: B's grammar, and where and why a condition is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.lang.condition import parse_condition
from orchestrate.plan.expr import Chain, Compare, Cond, Const, ListExpr, Not, Ref, Truth

LIST = ListExpr((Const("x"), Const(1)))


def variable(name: str) -> Ref:
    return Ref(("var", *name.split(".")), "{{" + name + "}}")


def test_a_comparison_has_a_variable_and_a_string() -> None:
    condition = parse_condition("{{analysis.severity}} == 'critical'")
    assert condition.cond == Compare(variable("analysis.severity"), "==", Const("critical"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{a}} != "x"', Compare(variable("a"), "!=", Const("x"))),
        ("'x' == {{a}}", Compare(Const("x"), "==", variable("a"))),
        ("{{a}} == {{b}}", Compare(variable("a"), "==", variable("b"))),
        ("{{a}}==''", Compare(variable("a"), "==", Const(""))),
        ("\n  {{a}}\n  == 'x'\n", Compare(variable("a"), "==", Const("x"))),
        ('{{a}} == "it\'s"', Compare(variable("a"), "==", Const("it's"))),
        ("{{a}} == 'x and y or z'", Compare(variable("a"), "==", Const("x and y or z"))),
        ("{{a}} == '(not) > ='", Compare(variable("a"), "==", Const("(not) > ="))),
        ("{{android}} == 'x'", Compare(variable("android"), "==", Const("x"))),
        ("{{a}} >= -1.5", Compare(variable("a"), ">=", Const(-1.5))),
        ("{{a}} == 10", Compare(variable("a"), "==", Const(10))),
        ("{{a}} != null", Compare(variable("a"), "!=", Const(None))),
        ("{{a}} == false", Compare(variable("a"), "==", Const(False))),
        ("'x' in {{a}}", Compare(Const("x"), "in", variable("a"))),
        ("{{a}} not  in ['x', 1]", Compare(variable("a"), "not in", LIST)),
        ("not {{a}} == 'x'", Not(Compare(variable("a"), "==", Const("x")))),
        ("({{a}})", Truth(variable("a"))),
        ("a.b == 'x'", Compare(Ref(("var", "a", "b"), "a.b"), "==", Const("x"))),
    ],
)
def test_every_form_of_a_value_and_an_operator(text: str, expected: Cond) -> None:
    condition = parse_condition(text)
    assert condition.cond == expected
    assert not condition.faults


def test_comparisons_are_chained_from_left_to_right() -> None:
    condition = parse_condition("{{a}} == 'x' and {{b}} == 'y' or {{c}} != 'z'")
    assert condition.cond == Chain(
        Compare(variable("a"), "==", Const("x")),
        (
            ("and", Compare(variable("b"), "==", Const("y"))),
            ("or", Compare(variable("c"), "!=", Const("z"))),
        ),
    )
    assert condition.mixed


def test_parentheses_group_and_end_the_warning() -> None:
    condition = parse_condition("{{a}} and ({{b}} or not {{c}})")
    inner = Chain(Truth(variable("b")), (("or", Not(Truth(variable("c")))),))
    assert condition.cond == Chain(Truth(variable("a")), (("and", inner),))
    assert not condition.mixed


def test_deep_parentheses_are_refused() -> None:
    (fault,) = parse_condition("(" * 5000 + "{{a}}" + ")" * 5000).faults
    assert "too deep" in fault.message


@pytest.mark.parametrize("word", ["and", "or"])
def test_one_kind_of_joint_is_not_mixed(word: str) -> None:
    condition = parse_condition(f"{{{{a}}}}=='x'{word}{{{{b}}}}=='y' {word} {{{{c}}}}=='z'")
    assert isinstance(condition.cond, Chain)
    assert not condition.mixed


def test_every_variable_knows_its_place() -> None:
    text = "{{a}} == 'x' or {{ b? }} == {{c.d}}"
    places = [text[item.start : item.end] for item in parse_condition(text).placed]
    assert places == ["{{a}}", "{{ b? }}", "{{c.d}}"]


@pytest.mark.parametrize(
    ("text", "place", "message", "advice"),
    [
        ("{{a}} = 'x'", "=", "not an operator", "=="),
        ("{{a}} === 'x'", "===", "not an operator", "=="),
        ("{{a}} !== 'x'", "!==", "not an operator", "!="),
        ("{{a}} <> 'x'", "<>", "not an operator", "!="),
        ("{{a}} => '3'", "=>", "not an operator", ">="),
        ("!{{a}}", "!", "not an operator", "not"),
        ("({{a}} == 'x'", "(", "never closed", "close it with )"),
        ("{{a}} == 'x')", ")", "no '(' comes before", "remove"),
        ("{{a}} in ['x'", "[", "never closed", "close it with ]"),
        ("not", "not", "no comparison after", "== 'value'"),
        ("{{a}} == ()", "==", "no value after", "== 'value'"),
        ("({{a}} == 'x') ({{b}})", "(", "missing before", "`and`"),
        ("{{a}}.contains('x')", ".contains(", "no functions", "in {{name}}"),
        ("len({{a}}) == '3'", "len(", "no functions", "answer"),
        ("{{a}} == 'x' && {{b}} == 'y'", "&&", "not an operator", "and"),
        ("{{a}} == 'x' || {{b}} == 'y'", "||", "not an operator", "or"),
        ("{{a}} == 'x' AND {{b}} == 'y'", "AND", "lower case", "and"),
        ("{{a}} == True", "True", "lower case", "true"),
        ("{{a}} == 10px", "10px", "not quoted", "write '10px'"),
        ("{{a}} == 'x", "'", "never closed", "close it with '"),
        ('{{a}} == "x', '"', "never closed", 'close it with "'),
        ("{{a == 'x'", "{{", "never closed", "}}"),
        ("{{a}} == \u2018x\u2019", "\u2018", "not a quote", "straight quotes"),
        ("{{a}} and 'x'", "'x'", "not a comparison", "== 'value'"),
        ("{{a}} ==", "==", "no value after", "== 'value'"),
        ("{{a}} == 'x' and", "and", "no comparison after", "== 'value'"),
        ("and {{a}} == 'x'", "and", "no value to compare", "== 'value'"),
        ("{{a}} 'x'", "'x'", "missing before", "== 'value'"),
        ("{{a}} equals 'x'", "equals", "not an operator", "== 'value'"),
        ("{{a}} == 'x' {{b}} == 'y'", "{{b}}", "missing before", "`and`"),
        ("{{a}} == 'x' andy {{b}} == 'y'", "andy", "neither", "`and`"),
        ("{{a}} == 'x' == 'y'", "==", "two sides", "`and`"),
        ("{{a}} == '{{b}}'", "'{{b}}'", "stays text", "write {{b}}"),
        ("{{a}} == 'x' # why", "#", "no meaning", "== 'value'"),
    ],
)
def test_a_malformed_condition_is_placed_and_explained(
    text: str, place: str, message: str, advice: str
) -> None:
    condition = parse_condition(text)
    (fault,) = condition.faults
    assert condition.cond is None
    assert (fault.code, text[fault.start : fault.end]) == ("E123", place)
    assert message in fault.message
    assert advice in (fault.suggestion or fault.hint)


def test_the_right_one_of_two_equal_signs_is_marked() -> None:
    text = "{{a}} == 'x' and {{b}} == 'y' == 'z'"
    (fault,) = parse_condition(text).faults
    assert fault.start == text.rindex("==")


def test_a_condition_without_a_variable_is_rejected() -> None:
    (fault,) = parse_condition("'a' == 'b'").faults
    assert (fault.code, fault.start, fault.end) == ("E309", 0, 10)


def test_a_condition_without_end_is_refused_early() -> None:
    (fault,) = parse_condition(" or ".join(["{{a}} == 'x'"] * 5000)).faults
    assert (fault.code, fault.message) == ("E123", "the condition is too long")


@pytest.mark.parametrize(
    ("text", "code"), [("{{a|b}} == 'x'", "E120"), ("{{step.x}} == 'x'", "E121")]
)
def test_a_malformed_variable_keeps_its_own_code(text: str, code: str) -> None:
    (fault,) = parse_condition(text).faults
    assert (fault.code, fault.start) == (code, 0)


@given(st.text(alphabet="{}ab.?=!<'\" andor()[],intf|&1\n", max_size=40))
def test_any_text_gives_a_condition_or_a_fault(text: str) -> None:
    condition = parse_condition(text)
    assert (condition.cond is None) == (len(condition.faults) == 1)
    for fault in condition.faults:
        assert 0 <= fault.start <= fault.end <= len(text)
    for item in condition.placed:
        assert text[item.start : item.end] == item.ref.text
