"""Values of expressions: how they render, what is undefined, and that nothing is scanned twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine.evaluate import (
    Undefined,
    UndefinedFault,
    descend,
    evaluate,
    evaluate_items,
    holds,
    render,
    render_all,
    render_pattern,
    render_value,
)
from orchestrate.engine.faults import StepFault
from orchestrate.engine.texts import encode
from orchestrate.plan.expr import Chain, Compare, Const, Exists, ListExpr, MapExpr, Ref, Text
from tests.engine.values import Values, text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
NOWHERE = Values({})


def ref(*path: str, optional: bool = False) -> Ref:
    return Ref(path, "${" + ".".join(path) + "}", optional)


def never(pattern: str) -> bool:
    raise AssertionError(f"looked for {pattern}")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-12, "-12"),
        (1.0, "1.0"),
        (2.5, "2.5"),
        ("", ""),
        ("null", "null"),
        ("a\nb\0", "a\nb\0"),
        ([], "[]"),
        ([1, "zwölf", None], '[1,"zwölf",null]'),
        ({"a": {"b": [True]}}, '{"a":{"b":[true]}}'),
        ("caf\udce9", "caf\udce9"),
        ("\ud800", "\ufffd"),
        (["\udfff"], '["\ufffd"]'),
    ],
)
def test_values_render(value: object, shown: str) -> None:
    assert render_value(value) == shown
    assert render(Text(("<", ref("x"), ">")), Values({"x": value})) == f"<{shown}>"


def test_a_file_name_that_is_not_utf_8_becomes_its_bytes_again() -> None:
    assert encode(render_value("caf\udce9")) == b"caf\xe9"


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_sent(value: str) -> None:
    assert len(encode(render_value(value))) >= len(value)
    assert encode(render_value([value])).startswith(b'["')


@given(JSON_VALUES)
def test_data_renders_as_json(value: Any) -> None:
    shown = render_value(value)
    assert shown == value if isinstance(value, str) else json.loads(shown) == value


def test_no_parts_are_the_empty_text() -> None:
    assert render(Text(()), NOWHERE) == ""


@pytest.mark.parametrize("value", ["${context.b}", "{{b}}", "$$", "$${x}", "%s", "{0}", "\\1"])
def test_a_value_is_never_scanned_again(value: str) -> None:
    scope = Values({"context": {"a": value, "b": "SECRET"}, "b": "SECRET"})
    assert render(text("[${context.a}]"), scope) == f"[{value}]"


@given(st.text(), st.text(), st.text())
def test_rendering_only_inserts(before: str, value: str, after: str) -> None:
    scope = Values({"a": value, "context": {"a": "SECRET"}})
    parts = tuple(part for part in (before, ref("a"), after, ref("a")) if part != "")
    expected = render_value(value)
    assert render(Text(parts), scope) == before + expected + after + expected


class TestEvaluate:
    scope = Values({"item": "x", "steps": {"List": {"json": {"files": ["a", "b"]}}}, "n": 3})

    def test_a_lone_reference_keeps_its_type(self) -> None:
        assert evaluate(ref("n"), self.scope) == 3
        assert evaluate(ref("steps", "List", "json", "files"), self.scope) == ["a", "b"]

    def test_a_text_is_text(self) -> None:
        assert evaluate(Text((ref("n"),)), self.scope) == "3"

    def test_trees_are_built(self) -> None:
        tree = MapExpr(
            (("a", ListExpr((Const(1), ref("n"), Text(("i=", ref("item")))))), ("b", Const(None)))
        )
        assert evaluate(tree, self.scope) == {"a": [1, 3, "i=x"], "b": None}

    def test_an_optional_reference_is_empty(self) -> None:
        assert evaluate(ref("gone", optional=True), self.scope) == ""
        assert render(Text(("<", ref("gone", optional=True), ">")), self.scope) == "<>"

    def test_items(self) -> None:
        """C acceptance 13: a list inside captured JSON."""
        assert evaluate_items(ref("steps", "List", "json", "files"), self.scope) == ["a", "b"]
        assert evaluate_items(ListExpr((Const("x"),)), self.scope) == ["x"]

    @pytest.mark.parametrize("path", [("item",), ("n",), ("steps", "List", "json")])
    def test_items_that_are_no_list(self, path: tuple[str, ...]) -> None:
        with pytest.raises(StepFault) as caught:
            evaluate_items(ref(*path), self.scope)
        assert caught.value.exit_code == 2
        assert caught.value.context == {"invalid_reference": ".".join(path)}


class TestUndefined:
    def test_all_of_an_expression_are_one_fault(self) -> None:
        scope = Values({"context": {"a": 1}})
        with pytest.raises(UndefinedFault) as caught:
            render(text("${context.b} ${context.a} ${context.c} ${context.b}"), scope)
        assert caught.value.exit_code == 2
        assert caught.value.context == {"undefined_vars": ["${context.b}", "${context.c}"]}
        assert caught.value.message == "undefined variables: ${context.b}, ${context.c}"

    def test_all_of_a_command_are_one_fault(self) -> None:
        with pytest.raises(UndefinedFault) as caught:
            render_all((text("${context.a}"), text("x"), text("${context.b}")), NOWHERE)
        assert caught.value.undefined == ("${context.a}", "${context.b}")

    def test_a_reason_is_told(self) -> None:
        scope = Values({}, (("var.review", "step 'review' was skipped"),))
        with pytest.raises(UndefinedFault) as caught:
            evaluate(Ref(("var", "review"), "{{review}}"), scope)
        assert caught.value.message == "undefined variable: {{review}} (step 'review' was skipped)"

    def test_missing_parameters_have_their_own_name(self) -> None:
        """C acceptance 48."""
        template = Text((Ref(("param", "model"), "${model}"), Ref(("param", "x"), "${x}")))
        with pytest.raises(UndefinedFault) as caught:
            render(template, NOWHERE)
        assert caught.value.context == {"missing_placeholders": ["model", "x"]}

    def test_a_missing_result_is_an_invalid_reference_too(self) -> None:
        with pytest.raises(UndefinedFault) as caught:
            render(text("${steps.List.lines}"), NOWHERE)
        assert caught.value.context == {
            "undefined_vars": ["${steps.List.lines}"],
            "invalid_reference": "steps.List.lines",
        }

    def test_deep_inside_a_tree(self) -> None:
        tree = MapExpr((("a", ListExpr((ref("x"),))), ("b", Text((ref("y"),)))))
        with pytest.raises(UndefinedFault) as caught:
            evaluate(tree, NOWHERE)
        assert caught.value.undefined == ("${x}", "${y}")


class TestHolds:
    scope = Values({"yes": True, "one": 1, "word": "a b", "none": None, "data": {"k": [1]}})

    @pytest.mark.parametrize(
        ("name", "same"),
        [("yes", "true"), ("one", "1"), ("word", "a b"), ("none", "null"), ("data", '{"k":[1]}')],
    )
    def test_both_sides_compare_as_text(self, name: str, same: str) -> None:
        assert holds(Compare(ref(name), "==", Const(same)), self.scope, never)
        assert not holds(Compare(ref(name), "!=", Const(same)), self.scope, never)
        assert not holds(Compare(Text((ref(name),)), "==", Const(same + "x")), self.scope, never)

    def test_scalars_of_the_file_compare_as_text(self) -> None:
        assert holds(Compare(ref("yes"), "==", Const(True)), self.scope, never)
        assert holds(Compare(Const(1), "==", Text(("1",))), self.scope, never)

    def test_an_undefined_variable_is_a_fault(self) -> None:
        with pytest.raises(UndefinedFault):
            holds(Compare(ref("gone"), "==", Const("")), self.scope, never)

    @pytest.mark.parametrize("found", [True, False])
    def test_exists_asks_for_the_pattern(self, found: bool) -> None:
        """C acceptance 46 and 47, with a value that is only a name."""
        asked: list[str] = []

        def exists(pattern: str) -> bool:
            asked.append(pattern)
            return found

        pattern = Text(("out/", ref("word"), "/*.txt"))
        assert holds(Exists(pattern), self.scope, exists) is found
        assert holds(Exists(pattern, negated=True), self.scope, exists) is not found
        assert asked == ["out/a b/*.txt"] * 2

    def test_exists_with_an_undefined_variable_looks_nowhere(self) -> None:
        with pytest.raises(UndefinedFault):
            holds(Exists(Text((ref("gone"),))), self.scope, never)

    @pytest.mark.parametrize(
        ("first", "rest", "expected"),
        [
            (True, [("or", True), ("and", False)], False),
            (True, [("and", False), ("or", True)], True),
            (False, [("and", False), ("or", True)], True),
            (False, [("or", False)], False),
        ],
    )
    def test_chains_go_from_left_to_right(
        self, first: bool, rest: list[tuple[Any, bool]], expected: bool
    ) -> None:
        def comparison(truth: bool) -> Compare:
            return Compare(ref("one"), "==" if truth else "!=", Const("1"))

        chain = Chain(comparison(first), tuple((word, comparison(truth)) for word, truth in rest))
        assert holds(chain, self.scope, never) is expected

    def test_a_chain_finds_what_is_undefined_behind_a_decided_part(self) -> None:
        chain = Chain(
            Compare(ref("one"), "==", Const("2")),
            (
                ("and", Compare(ref("x"), "==", Const(""))),
                ("or", Compare(ref("y"), "==", ref("z"))),
            ),
        )
        with pytest.raises(UndefinedFault) as caught:
            holds(chain, self.scope, never)
        assert caught.value.undefined == ("${x}", "${y}", "${z}")


DATA: dict[str, Any] = {"list": ["a", {"k": None}], "0": "zero"}


class TestDescend:
    def test_keys_and_positions(self) -> None:
        assert descend(DATA, ("list", "1", "k")) is None
        assert descend(DATA, ("0",)) == "zero"
        assert descend(DATA, ()) is DATA

    @pytest.mark.parametrize(
        "path",
        [("x",), ("list", "2"), ("list", "-1"), ("list", "01"), ("list", "²"), ("0", "0"),
         ("list", "1", "k", "x"), ("list", "9" * 5000)],
    )  # fmt: skip
    def test_nothing_there(self, path: tuple[str, ...]) -> None:
        with pytest.raises(Undefined):
            descend(DATA, path)


def test_wildcards_of_a_value_are_characters() -> None:
    scope = Values({"item": "a[1]*?.csv"})
    assert render_pattern(text("data/${item}/*"), scope) == r"data/a\[1\]\*\?.csv/*"
