"""Templates of recipes: what `{{…}}` refers to, and where a malformed one is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.lang.curly import parse_template
from orchestrate.plan.expr import Ref, Text, show


def paths(text: str) -> list[tuple[str, ...]]:
    return [item.ref.path for item in parse_template(text).placed]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{{x}}", ("var", "x")),
        ("{{ x }}", ("var", "x")),
        ("{{\tx\n}}", ("var", "x")),
        ("{{a.b.c.d.e}}", ("var", "a", "b", "c", "d", "e")),
        ("{{answer.file-name.0}}", ("var", "answer", "file-name", "0")),
        ("{{recipe.version}}", ("recipe", "version")),
        ("{{session.started}}", ("session", "started")),
        ("{{step.index}}", ("step", "index")),
        ("{{approval.message}}", ("approval", "message")),
        ("{{steps.x}}", ("var", "steps", "x")),
    ],
)
def test_a_reference_has_a_canonical_path(text: str, path: tuple[str, ...]) -> None:
    template = parse_template(text)
    assert template.lone == Ref(path, text)
    assert not template.faults


def test_a_question_mark_makes_a_reference_optional() -> None:
    assert parse_template("{{a.b?}}").lone == Ref(("var", "a", "b"), "{{a.b?}}", optional=True)


def test_text_around_references_is_kept_exactly() -> None:
    template = parse_template("a {{x}}{{y}}\n }} {z} {{ w }}")
    assert template.parts == (
        "a ",
        Ref(("var", "x"), "{{x}}"),
        Ref(("var", "y"), "{{y}}"),
        "\n }} {z} ",
        Ref(("var", "w"), "{{ w }}"),
    )
    assert template.lone is None


def test_no_text_has_no_parts() -> None:
    assert parse_template("").parts == ()


def test_every_reference_knows_its_place() -> None:
    text = "one {{a}} two {{ b.c }}"
    assert [text[p.start : p.end] for p in parse_template(text).placed] == ["{{a}}", "{{ b.c }}"]


@pytest.mark.parametrize("text", ['{"a": {{x}}}', '{"a": {"b": {{x}}}}', "{{{x}}}"])
def test_braces_of_json_around_a_variable_stay_text(text: str) -> None:
    template = parse_template(text)
    assert paths(text) == [("var", "x")]
    assert not template.faults
    assert show(Text(template.parts)) == text


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("a {{}} b", "{{}}", "write \\{{"),
        ("a {{  }} b", "{{  }}", "write \\{{"),
        ("{{?}}", "{{?}}", "write {{name}}"),
        ("a {{x b", "{{", "close it with }}"),
        ("{{a} and {{b}}", "{{", "close it with }}"),
        ("{{ x | upper }}", "{{ x | upper }}", "write {{x}}"),
        ("{{f(x)}}", "{{f(x)}}", "functions"),
        ("{{x[0]}}", "{{x[0]}}", "brackets"),
        ("{{a + b}}", "{{a + b}}", "expressions"),
        ("{{my-name}}", "{{my-name}}", "letters, digits and _"),
        ("{{a . b}}", "{{a . b}}", "write {{a.b}}, without spaces inside"),
        ("{{a?.b}}", "{{a?.b}}", "at the end: {{a.b?}}"),
        ("{{1st}}", "{{1st}}", "write {{name}}"),
        ("{{a..b}}", "{{a..b}}", "write {{name}}"),
        ("{{.a}}", "{{.a}}", "write {{name}}"),
        ("{{a.}}", "{{a.}}", "write {{name}}"),
        ("{{größe}}", "{{größe}}", "write {{name}}"),
    ],
)
def test_a_malformed_reference_is_placed_and_explained(text: str, place: str, hint: str) -> None:
    (fault,) = parse_template(text).faults
    assert (fault.code, text[fault.start : fault.end]) == ("E120", place)
    assert hint in fault.hint


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("{{recipe.nam}}", "{{recipe.name}}"),
        ("{{session.project_id}}", "{{session.project}}"),
        ("{{step.indx}}", "{{step.index}}"),
        ("{{approval.mesage}}", "{{approval.message}}"),
        ("{{recipe.zzz}}", ""),
        ("{{recipe}}", ""),
        ("{{step.id.x.y}}", "{{step.id}}"),
    ],
)
def test_a_reserved_name_has_known_members_only(text: str, suggestion: str) -> None:
    (fault,) = parse_template(text).faults
    assert (fault.code, fault.start, fault.end) == ("E121", 0, len(text))
    assert fault.suggestion == suggestion
    assert ("known: {{" in fault.hint) == (not suggestion)


def test_one_mistake_does_not_hide_the_next() -> None:
    template = parse_template("{{a b}} {{c}} {{d|e}}")
    assert [fault.start for fault in template.faults] == [0, 14]
    assert [item.ref.path for item in template.placed] == [("var", "c")]


def test_a_hostile_text_is_read_in_one_pass() -> None:
    count = 300_000
    assert len(parse_template("{{" * count).faults) == 1
    assert len(parse_template("{{ " * count + "}}").faults) == 20
    assert len(parse_template("{{}}" * count).faults) == 20


@given(st.text(alphabet="{}ab.? |\n'"))
def test_a_text_without_faults_is_put_together_again(text: str) -> None:
    template = parse_template(text)
    if not template.faults:
        assert show(Text(template.parts)) == text
    for item in template.placed:
        assert text[item.start : item.end] == item.ref.text
    for fault in template.faults:
        assert 0 <= fault.start < fault.end <= len(text)
