"""Reading random and damaged files: findings, never exceptions; two parsers, one answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrate.diagnostics import Findings
from orchestrate.source import yaml
from orchestrate.source.include import Loader
from orchestrate.source.json import parse_json
from orchestrate.source.located import LocatedList, LocatedMap, pack
from orchestrate.source.reader import ReadFault
from orchestrate.workspace import open_workspace
from tests.fuzz.strategies import REPOSITORY, data, scalars, spelled, texts

Parse = Callable[..., Any]
SHIPPED = sorted(
    path
    for folder in ("workflows", ".orchestrate.example")
    for path in (REPOSITORY / folder).rglob("*.yaml")
)


def read(parse: Parse, text: str) -> tuple[Any, list[tuple[str, int, int]]]:
    """What a parser makes of a text: data or the fault that ended it, and what it reported."""
    told: list[tuple[str, int, int]] = []

    def report(fault: ReadFault) -> None:
        told.append((fault.code, fault.line, fault.column))

    try:
        return parse(text, 0, report), told
    except ReadFault as fault:
        told.append((fault.code, fault.line, fault.column))
        return None, told


def located(value: Any) -> Any:
    """The data with all its marks, as something to compare."""
    if isinstance(value, LocatedMap):
        return (value.mark, list(value.marks), [(k, located(v)) for k, v in value.items()])
    if isinstance(value, LocatedList):
        return (value.mark, list(value.marks), [located(v) for v in value])
    return (type(value).__name__, value)


def parse_pure(text: str, source: int, report: yaml.Report) -> Any:
    """`parse_yaml` on a machine without the C part of ruamel.yaml."""
    original = yaml._event_reader
    yaml._event_reader = yaml.pure_event_reader
    try:
        return yaml.parse_yaml(text, source, report)
    finally:
        yaml._event_reader = original


@given(st.one_of(st.text(), texts, st.text("[]{}:,-?&*!|>'\"%@# \n\tab0.~<=\r\u2028\x85")))
@example("\ud800")
@example(":")
@example('"\u2028\\')
@example("? &a\n: *a")
@example("%TAG ! tag:\n--- !a b")
@example("&a [*a, &a b]")
@example("a:\r b\rc: d")
def test_any_text(text: str) -> None:
    for parse in (yaml.parse_yaml, parse_pure, parse_json):
        _, told = read(parse, text)
        for _, line, column in told:
            assert 0 <= line <= len(text)
            assert 0 <= column <= len(text) + 1


@given(st.binary(max_size=60), st.sampled_from([".yaml", ".json"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes, suffix: str) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    path = folder / f"x{suffix}"
    path.write_bytes(raw)
    findings = Findings()
    document = Loader(open_workspace(folder), findings).load(path)
    assert document is not None or findings.has_errors


@given(st.data())
def test_damaged_text_of_shipped_files(draw: st.DataObject) -> None:
    text = draw.draw(st.sampled_from(SHIPPED)).read_text("utf-8")
    begin = draw.draw(st.integers(0, len(text)))
    end = draw.draw(st.integers(begin, min(len(text), begin + 40)))
    broken = text[:begin] + draw.draw(texts) + text[end:]
    read(yaml.parse_yaml, broken)


@given(data.flatmap(lambda value: st.tuples(st.just(value), spelled(value))))
def test_spelled_data_is_read_back(pair: tuple[Any, str]) -> None:
    value, text = pair
    found, told = read(yaml.parse_yaml, text)
    if value is None:
        assert [code for code, _, _ in told] == ["E005"]
    else:
        assert not told
        assert found == value


@given(st.text("\x85\u2028\u2029\r a", max_size=8), st.sampled_from(["'{}'", '"{}"', "# {}"]))
def test_unusual_line_ends_do_not_shift_lines(text: str, form: str) -> None:
    """What only YAML 1.1 took for a line end is text, and counts as nothing else."""
    text = text.replace("\r", "")
    found, told = read(yaml.parse_yaml, f"a: {form.format(text)}\nb: [c]\n")
    assert not told
    assert found["b"].mark == pack(0, 1, 3)
    if form[0] != "#":
        assert found["a"] == text


def test_a_lone_return_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mac.yaml"
    path.write_bytes(b"a: 1\rb: 2\r\nc: @x\r")
    findings = Findings()
    assert Loader(open_workspace(tmp_path), findings).load(path) is None
    assert [(d.span.line, d.excerpt) for d in findings.items] == [(3, "c: @x")]


@given(data.flatmap(spelled))
def test_both_event_sources_agree(text: str) -> None:
    found, told = read(yaml.parse_yaml, text)
    found_pure, told_pure = read(parse_pure, text)
    assert located(found) == located(found_pure)
    assert told == told_pure


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_both_event_sources_agree_on_shipped_files(path: Path) -> None:
    text = path.read_text("utf-8")
    found, told = read(yaml.parse_yaml, text)
    found_pure, told_pure = read(parse_pure, text)
    assert located(found) == located(found_pure)
    assert told == told_pure == []


@given(data, st.sampled_from([None, 1, 4]), st.booleans())
def test_json_agrees_with_the_standard_library(
    value: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found, told = read(parse_json, text)
    assert not told
    assert found == json.loads(text)
    assert json.dumps(found) == json.dumps(json.loads(text))


@given(st.one_of(st.text('[]{}:,"\\ tfn0123456789.-+eE\n\r\tu', max_size=12), data.map(json.dumps)))
def test_json_accepts_what_the_standard_library_accepts(text: str) -> None:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    try:
        expected = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
        json.dumps(expected, allow_nan=False).encode()
        "".join(json.dumps(expected, ensure_ascii=False)).encode()
    except (ValueError, RecursionError):
        assert read(parse_json, text)[1]
        return
    found, told = read(parse_json, text)
    if not told:
        assert found == expected
    else:
        assert {code for code, _, _ in told} <= {"E014"}


@given(scalars.filter(lambda value: value is not None))
def test_json_is_yaml(value: Any) -> None:
    text = json.dumps({"a": [value]}, ensure_ascii=False)
    assert read(yaml.parse_yaml, text) == read(parse_json, text)


@given(st.lists(st.sampled_from("ab\n\r\u2028\x85 "), max_size=60).map("".join), st.data())
def test_lines_and_offsets_are_inverse(text: str, draw: st.DataObject) -> None:
    from orchestrate.source.located import Source

    source = Source("x", Path("x"), text)
    lines = text.split("\n")
    number = draw.draw(st.integers(0, len(lines) - 1))
    column = draw.draw(st.integers(0, len(lines[number])))
    assert source.line(number) == lines[number].rstrip("\r")
    assert source.line_and_column(source.offset(number, column)) == (number, column)
