"""Our own checker and jsonschema accept and reject exactly the same documents (ADR 0002)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry
from ruamel.yaml import YAML

from orchestrate.compile import compile_file
from orchestrate.source.located import Hole
from orchestrate.source.schema import check_shipped, load_schema
from orchestrate.workspace import open_workspace
from tests.fuzz.strategies import RECIPES, REPOSITORY, damaged, data, places, replacements

DIALECTS = ("machine", "recipe", "workflow")
NAMES = (*DIALECTS, "state", "status", "qa_verdict", "config", "fleet", "agent")


@cache
def validator(name: str) -> Draft202012Validator:
    """jsonschema with an empty registry, so that it could not fetch anything."""
    return Draft202012Validator(load_schema(name), registry=Registry())


@cache
def shipped(authored: bool) -> tuple[tuple[str, Any], ...]:
    """Every shipped recipe with its dialect: as written, or composed."""
    found = []
    for recipe in RECIPES:
        compilation = compile_file(REPOSITORY / recipe, open_workspace(REPOSITORY))
        assert compilation.dialect is not None
        if authored:
            document = YAML(typ="safe", pure=True).load((REPOSITORY / recipe).read_text("utf-8"))
        else:
            assert compilation.program is not None
            document = compilation.documents[compilation.program.main]
        found.append((compilation.dialect, json.loads(json.dumps(document))))
    return tuple(found)


def assert_agree(name: str, document: Any) -> None:
    ours = check_shipped(name, document)
    theirs = list(validator(name).iter_errors(document))
    assert bool(ours) == bool(theirs), (ours[:3], [error.message for error in theirs[:3]])
    for violation in ours:
        value = document
        for key in violation.path:
            value = value[key]
        assert not isinstance(value, Hole)
    if ours:
        # jsonschema stops at the `anyOf` around a value: its places are ours or stand above them.
        roots = {tuple(error.absolute_path) for error in theirs}
        for violation in ours:
            assert any(violation.path[: len(root)] == root for root in roots), violation
        for root in roots:
            assert any(violation.path[: len(root)] == root for violation in ours), root


@pytest.mark.parametrize("authored", [False, True], ids=["composed", "authored"])
def test_shipped_recipes_are_valid_either_way(authored: bool) -> None:
    for dialect, document in shipped(authored):
        assert validator(dialect).is_valid(document)
        assert not check_shipped(dialect, document)


@pytest.mark.parametrize("authored", [False, True], ids=["composed", "authored"])
@given(draw=st.data())
def test_damaged_recipes(authored: bool, draw: st.DataObject) -> None:
    dialect, document = draw.draw(st.sampled_from(shipped(authored)))
    assert_agree(dialect, draw.draw(damaged(document)))


@pytest.mark.parametrize("name", NAMES)
@given(document=data)
def test_any_data(name: str, document: Any) -> None:
    assert_agree(name, document)


@st.composite
def shaped(draw: st.DrawFn, schema: Any, root: Any, level: int = 0) -> Any:
    """Data that follows the schema most of the way."""
    if level > 9 or not isinstance(schema, dict) or draw(st.integers(0, 19)) == 0:
        return draw(replacements)
    if "$ref" in schema:
        target = root
        for token in schema["$ref"].removeprefix("#/").split("/"):
            target = target[token]
        return draw(shaped(target, root, level))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "anyOf" in schema:
        return draw(shaped(draw(st.sampled_from(schema["anyOf"])), root, level + 1))
    if schema.get("examples") and draw(st.booleans()):
        return draw(st.sampled_from(schema["examples"]))
    named = schema.get("type", "object" if "properties" in schema else None)
    kind = draw(st.sampled_from(named)) if isinstance(named, list) else named
    if kind == "object":
        return draw(_shaped_object(schema, root, level))
    if kind == "array":
        items = shaped(schema.get("items", {}), root, level + 1)
        return draw(st.lists(items, min_size=schema.get("minItems", 0), max_size=3))
    simple: dict[Any, st.SearchStrategy[Any]] = {
        "string": st.sampled_from(["a", "b-c", "1.1", "x y", "a.b", "", "{{x}}", "2025-01-01"]),
        "integer": st.integers(-1, 9),
        "number": st.floats(-1, 9),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(simple.get(kind, replacements))


@st.composite
def _shaped_object(draw: st.DrawFn, schema: Any, root: Any, level: int) -> Any:
    known = schema.get("properties", {})
    required = [name for name in schema.get("required", ()) if draw(st.integers(0, 9))]
    optional = draw(st.lists(st.sampled_from(sorted(known)), max_size=4)) if known else []
    result = {}
    for name in dict.fromkeys((*required, *optional)):
        result[name] = draw(shaped(known.get(name, {}), root, level + 1))
    rest = schema.get("additionalProperties", True)
    if isinstance(rest, dict) or draw(st.integers(0, 9)) == 0:
        for name in draw(st.lists(st.sampled_from(["a", "b", "x-y", "other"]), max_size=2)):
            result[name] = draw(shaped(rest, root, level + 1))
    return result


@pytest.mark.parametrize("name", NAMES)
@given(draw=st.data())
def test_data_shaped_by_the_schema(name: str, draw: st.DataObject) -> None:
    schema = load_schema(name)
    assert_agree(name, draw.draw(shaped(schema, schema)))


@given(draw=st.data())
def test_numbers_and_booleans(draw: st.DataObject) -> None:
    """JSON's own notions: 1 is 1.0, and neither is true."""
    dialect, document = draw.draw(st.sampled_from(shipped(False)))
    document = json.loads(json.dumps(document))
    path = draw.draw(st.sampled_from(places(document)))
    owner = document
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = draw.draw(
        st.sampled_from([1.0, 1, True, False, 0, 0.0, -0.0, 10**400, 1e300])
    )
    assert_agree(dialect, document)
