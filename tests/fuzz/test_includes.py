"""`$include` composes what a plain RFC 7396 merge of the same data gives."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.diagnostics import Findings
from orchestrate.source.include import Loader
from orchestrate.source.located import LocatedList, LocatedMap, Sources
from orchestrate.workspace import open_workspace
from tests.fuzz.strategies import printable, scalars

keys = st.sampled_from(["a", "b", "c", "d", "e/f", "g~h", ""])
plain = st.recursive(
    st.one_of(scalars, printable),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=10,
)
maps = st.dictionaries(keys, plain, max_size=4)
FILES = ("one.json", "two.yaml", "three.json")


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, as its section 2 words it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@st.composite
def including(draw: st.DrawFn, level: int = 0) -> Any:
    """A document that includes some of `FILES` here and there."""
    kind = draw(st.sampled_from(["plain", "include", "patched", "map", "list"]))
    if level > 2 or kind == "plain":
        return draw(plain)
    if kind == "map":
        return draw(st.dictionaries(keys, including(level + 1), max_size=3))
    if kind == "list":
        return draw(st.lists(including(level + 1), max_size=3))
    targets = draw(st.lists(st.sampled_from(FILES), min_size=1, max_size=3))
    named: Any = targets[0] if len(targets) == 1 and draw(st.booleans()) else targets
    own = draw(st.dictionaries(keys, including(level + 1), max_size=3)) if kind == "patched" else {}
    return {draw(st.sampled_from(["$include", "$ref"])): named, **own}


def composed(value: Any, files: dict[str, Any]) -> Any:
    """What a document means, worked out the simple way."""
    if isinstance(value, list):
        result: list[Any] = []
        for item in value:
            meaning = composed(item, files)
            is_include = isinstance(item, dict) and ("$include" in item or "$ref" in item)
            if is_include and isinstance(meaning, list):
                result.extend(meaning)
            else:
                result.append(meaning)
        return result
    if not isinstance(value, dict):
        return value
    word = "$include" if "$include" in value else "$ref"
    if word not in value:
        return {key: composed(item, files) for key, item in value.items()}
    named = value[word]
    first, *others = [named] if isinstance(named, str) else named
    base = files[first]
    for other in others:
        base = merged(base, files[other])
    own = {key: composed(item, files) for key, item in value.items() if key != word}
    return merged(base, own) if own else base


def load(folder: Path, name: str) -> tuple[Any, Findings, Sources]:
    findings = Findings()
    loader = Loader(open_workspace(folder), findings)
    document = loader.load(folder / name)
    return (document.data if document is not None else None), findings, loader.sources


@given(including(), st.tuples(maps, maps, maps))
def test_composition_is_merge_patch(
    tmp_path_factory: pytest.TempPathFactory, document: Any, parts: tuple[Any, Any, Any]
) -> None:
    folder = tmp_path_factory.mktemp("includes")
    files = dict(zip(FILES, parts, strict=True))
    for name, part in files.items():
        (folder / name).write_text(json.dumps(part, ensure_ascii=False), "utf-8")
    document = {"root": document}
    (folder / "main.json").write_text(json.dumps(document), "utf-8")
    expected = composed(copy.deepcopy(document), files)
    found, findings, sources = load(folder, "main.json")
    assert not findings.has_errors
    assert found == expected
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
    assert_marked(found, sources)


def assert_marked(value: Any, sources: Sources) -> None:
    """Every container has a mark for each of its entries, and text stands where its mark says."""
    if isinstance(value, LocatedMap):
        assert len(value.marks) == 2 * len(value)
        for key, item, key_mark, item_mark in value.entries():
            assert sources.authored(key_mark) == json.dumps(key, ensure_ascii=False)
            assert_written(item, item_mark, sources)
            assert_marked(item, sources)
    elif isinstance(value, LocatedList):
        assert len(value.marks) == len(value)
        for item, mark in zip(value, value.marks, strict=True):
            assert_written(item, mark, sources)
            assert_marked(item, sources)


def assert_written(value: Any, mark: int, sources: Sources) -> None:
    if isinstance(value, bool | int) or value is None:
        assert sources.authored(mark) == json.dumps(value)


@given(maps, st.data())
def test_pointers(
    tmp_path_factory: pytest.TempPathFactory, part: dict[str, Any], draw: st.DataObject
) -> None:
    """A pointer into a file gives the value that stands there, with its place."""
    folder = tmp_path_factory.mktemp("pointers")
    value: Any = {"top": part}
    (folder / "part.json").write_text(json.dumps(value), "utf-8")
    pointer = ""
    while isinstance(value, dict | list) and value and draw.draw(st.booleans()):
        if isinstance(value, dict):
            key: Any = draw.draw(st.sampled_from(sorted(value)))
            token = key.replace("~", "~0").replace("/", "~1")
        else:
            key = draw.draw(st.integers(0, len(value) - 1))
            token = str(key)
        value, pointer = value[key], f"{pointer}/{token}"
    target = f"part.json#{pointer}" if pointer else "part.json"
    (folder / "main.json").write_text(json.dumps({"x": {"$include": target}}), "utf-8")
    found, findings, sources = load(folder, "main.json")
    assert not findings.items
    assert found == {"x": value}
    assert sources.of(found.value_mark("x")).path.name == "part.json"


@given(st.recursive(
    st.one_of(scalars, st.sampled_from(["main.json", "#/a", "x.json", "../x.json", "a#b"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["$include", "$ref", "a", "b"]), inner, max_size=4),
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_include_is_composed_or_reported(
    tmp_path_factory: pytest.TempPathFactory, document: Any
) -> None:
    folder = tmp_path_factory.mktemp("wild")
    (folder / "main.json").write_text(json.dumps(document), "utf-8")
    (folder / "x.json").write_text('{"a": {"$include": "main.json#/a"}}', "utf-8")
    found, findings, _ = load(folder, "main.json")
    if not findings.has_errors:
        assert "$include" not in json.dumps(found)
