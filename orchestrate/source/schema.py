"""A small, exact JSON Schema checker: the accepting path needs nothing else.

It compiles the keywords that our schemas use (and refuses others) into closures. It accepts just
what jsonschema accepts, a test shows that, and costs a tenth of it; and because it knows our
conventions (`x-since`, `x-hint`, the real branch of an `anyOf` stands last), its findings read
better than a general validator's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

from orchestrate.record import field, mutable_record, record, replace
from orchestrate.source.json_types import TYPES, identity, is_number, same
from orchestrate.source.located import Hole, PathKey
from orchestrate.workspace import package_data

Schema = dict[str, Any]


@record
class Violation:
    """One place where a value breaks one keyword of its schema."""

    path: tuple[PathKey, ...]
    keyword: str
    schema: Schema
    value: Any
    detail: Any = None
    hint: str = ""


@mutable_record
class _Run:
    """One validation under way: where we are, and what was found."""

    version: tuple[int, ...]
    path: list[PathKey] = field(default_factory=list)
    found: list[Violation] = field(default_factory=list)

    def fail(self, keyword: str, schema: Schema, value: Any, detail: Any = None) -> None:
        self.found.append(Violation(tuple(self.path), keyword, schema, value, detail))


Check = Callable[[Any, _Run], None]

_ANNOTATIONS = frozenset(
    (
        "$schema",
        "$id",
        "$defs",
        "$comment",
        "title",
        "description",
        "examples",
        "default",
        "x-since",
        "x-hint",
        "then",
        "else",
    )
)


@lru_cache(maxsize=16)
def load_schema(name: str) -> Schema:
    """A shipped schema by its short name, e.g. `machine`."""
    text = (package_data() / "schemas" / f"{name}.schema.json").read_text("utf-8")
    schema: Schema = json.loads(text)
    return schema


@lru_cache(maxsize=16)
def _shipped_checker(name: str) -> Check:
    return compile_schema(load_schema(name))


def check_shipped(name: str, value: Any, version: str = "") -> list[Violation]:
    """Violations of a shipped schema; `version` is the DSL version for `x-since` gates."""
    run = _Run(parse_version(version))
    _shipped_checker(name)(value, run)
    return run.found


def parse_version(text: str) -> tuple[int, ...]:
    """'1.1.1' → (1, 1, 1); anything else means the newest there is, so nothing is gated."""
    parts = text.split(".")
    return tuple(int(p) for p in parts) if all(p.isdecimal() for p in parts) else (999,)


def compile_schema(schema: Schema) -> Check:
    """The checker of a schema; raises ValueError for keywords outside our subset."""
    return _Compiler(schema).compile(schema)


class _Compiler:
    """Holds the root for `$ref` and remembers what is compiled, so that recursion ends."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.compiled: dict[str, Check | None] = {}

    def compile(self, schema: Schema | bool) -> Check:
        if schema is True or schema == {}:
            return _accept
        if schema is False:
            return lambda value, run: run.fail("false", {}, value)
        assert isinstance(schema, dict)
        checks = [maker(self, schema) for keyword, maker in _MAKERS.items() if keyword in schema]
        unknown = [k for k in schema if k not in _MAKERS and k not in _ANNOTATIONS]
        if unknown:
            raise ValueError(f"the schema keyword {unknown[0]!r} is outside our subset")
        hint = schema.get("x-hint", "")
        if hint:
            return _with_hint(_all_of(checks), hint)
        return _all_of(checks)

    def reference(self, schema: Schema) -> Check:
        pointer: str = schema["$ref"]
        if pointer not in self.compiled:
            self.compiled[pointer] = None
            target: Any = self.root
            for token in pointer.removeprefix("#/").split("/"):
                target = target[token]
            self.compiled[pointer] = self.compile(target)
        known = self.compiled[pointer]
        if known is not None:
            return known
        # A schema that contains itself: look the checker up when it is first needed.
        return lambda value, run: self._compiled_at(pointer)(value, run)  # noqa: PLW0108 - not there yet

    def _compiled_at(self, pointer: str) -> Check:
        check = self.compiled[pointer]
        assert check is not None
        return check


def _accept(value: Any, run: _Run) -> None:
    pass


def _all_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]
    if not checks:
        return _accept

    def check_all(value: Any, run: _Run) -> None:
        for check in checks:
            check(value, run)

    return check_all


def _with_hint(check: Check, hint: str) -> Check:
    def check_hinted(value: Any, run: _Run) -> None:
        before = len(run.found)
        check(value, run)
        for index in range(before, len(run.found)):
            item = run.found[index]
            if not item.hint and len(item.path) == len(run.path):
                run.found[index] = Violation(
                    item.path, item.keyword, item.schema, item.value, item.detail, hint
                )

    return check_hinted


def _type(_: _Compiler, schema: Schema) -> Check:
    named = schema["type"]
    tests = [TYPES[name] for name in ([named] if isinstance(named, str) else named)]

    def check(value: Any, run: _Run) -> None:
        for test in tests:
            if test(value):
                return
        if not isinstance(value, Hole):
            run.fail("type", schema, value)

    return check


def _enum(_: _Compiler, schema: Schema) -> Check:
    allowed = schema["enum"]
    texts = frozenset(v for v in allowed if isinstance(v, str))

    def check(value: Any, run: _Run) -> None:
        if isinstance(value, str):
            if value not in texts:
                run.fail("enum", schema, value)
        elif not isinstance(value, Hole) and not any(same(value, v) for v in allowed):
            run.fail("enum", schema, value)

    return check


def _const(_: _Compiler, schema: Schema) -> Check:
    def check(value: Any, run: _Run) -> None:
        if not isinstance(value, Hole) and not same(value, schema["const"]):
            run.fail("const", schema, value)

    return check


def _pattern(_: _Compiler, schema: Schema) -> Check:
    def check(value: Any, run: _Run) -> None:
        # `re` keeps compiled patterns; most patterns of a schema are never asked for.
        if isinstance(value, str) and re.search(schema["pattern"], value) is None:
            run.fail("pattern", schema, value)

    return check


def _bound(
    keyword: str, applies: Callable[[Any], bool], broken: Callable[[Any, Any], bool]
) -> Callable[[_Compiler, Schema], Check]:
    """Makers for the keywords that compare a value's size with a limit."""

    def make(_: _Compiler, schema: Schema) -> Check:
        limit = schema[keyword]

        def check(value: Any, run: _Run) -> None:
            if applies(value) and broken(value, limit):
                run.fail(keyword, schema, value, limit)

        return check

    return make


def _unique(_: _Compiler, schema: Schema) -> Check:
    def check(value: Any, run: _Run) -> None:
        if not isinstance(value, list) or not schema["uniqueItems"]:
            return
        seen: set[Hashable] = set()
        for index, item in enumerate(value):
            key = identity(item)
            if key in seen and not isinstance(item, Hole):
                run.path.append(index)
                run.fail("uniqueItems", schema, item)
                run.path.pop()
            seen.add(key)

    return check


def _required(_: _Compiler, schema: Schema) -> Check:
    names = schema["required"]

    def check(value: Any, run: _Run) -> None:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    run.fail("required", schema, value, name)

    return check


def _object(compiler: _Compiler, schema: Schema) -> Check:
    """`properties`, `patternProperties` and `additionalProperties` act on the same keys."""
    properties = schema.get("properties", {})
    # A file uses few of the fields there are, so each is compiled when it is first met.
    known: dict[str, Check] = {}
    since = {
        name: parse_version(sub["x-since"])
        for name, sub in properties.items()
        if isinstance(sub, dict) and "x-since" in sub
    }
    patterns = [
        (re.compile(pattern), compiler.compile(sub))
        for pattern, sub in schema.get("patternProperties", {}).items()
    ]
    rest = schema.get("additionalProperties", True)
    other = _accept if rest is True or rest is False else compiler.compile(rest)

    def check(value: Any, run: _Run) -> None:
        if not isinstance(value, dict):
            return
        path = run.path
        for key, item in value.items():
            path.append(key)
            sub = known.get(key)
            if sub is None and key in properties:
                sub = known[key] = compiler.compile(properties[key])
            if sub is not None:
                sub(item, run)
                if key in since and run.version < since[key]:
                    run.fail("x-since", schema["properties"][key], item)
            matched = sub is not None
            for pattern, pattern_check in patterns:
                if pattern.search(key):
                    matched = True
                    pattern_check(item, run)
            if not matched:
                if rest is False:
                    run.fail("additionalProperties", schema, item)
                else:
                    other(item, run)
            path.pop()

    return check


def _property_names(compiler: _Compiler, schema: Schema) -> Check:
    sub = compiler.compile(schema["propertyNames"])

    def check(value: Any, run: _Run) -> None:
        if not isinstance(value, dict):
            return
        for key in value:
            probe = _Run(run.version)
            sub(key, probe)
            run.path.append(key)
            for item in probe.found:
                run.fail("propertyNames", item.schema, key, item)
            run.path.pop()

    return check


def _items(compiler: _Compiler, schema: Schema) -> Check:
    sub = compiler.compile(schema["items"])

    def check(value: Any, run: _Run) -> None:
        if not isinstance(value, list):
            return
        path = run.path
        for index, item in enumerate(value):
            path.append(index)
            sub(item, run)
            path.pop()

    return check


def _any_of(compiler: _Compiler, schema: Schema) -> Check:
    """Our schemas put the real form last: it is tried first and explains a rejection."""
    branches = [compiler.compile(sub) for sub in reversed(schema["anyOf"])]

    def check(value: Any, run: _Run) -> None:
        if isinstance(value, Hole):
            return
        before = len(run.found)
        explanation: list[Violation] | None = None
        for branch in branches:
            branch(value, run)
            # A version gate does not choose another branch.
            if all(v.keyword == "x-since" for v in run.found[before:]):
                return
            if explanation is None:
                explanation = run.found[before:]
            del run.found[before:]
        run.found.extend(explanation or ())

    return check


def _every_of(compiler: _Compiler, schema: Schema) -> Check:
    return _all_of([compiler.compile(sub) for sub in schema["allOf"]])


def _not(compiler: _Compiler, schema: Schema) -> Check:
    sub = compiler.compile(schema["not"])

    def check(value: Any, run: _Run) -> None:
        probe = _Run(run.version)
        sub(value, probe)
        if not probe.found and not isinstance(value, Hole):
            run.fail("not", schema, value)

    return check


def _if(compiler: _Compiler, schema: Schema) -> Check:
    test = compiler.compile(schema["if"])
    then = compiler.compile(schema.get("then", True))
    otherwise = compiler.compile(schema.get("else", True))

    def check(value: Any, run: _Run) -> None:
        probe = _Run(run.version)
        test(value, probe)
        before = len(run.found)
        (otherwise if probe.found else then)(value, run)
        for number in range(before, len(run.found)):
            # The fields that are asked for here are described where the condition stands.
            found = run.found[number]
            if found.keyword == "required" and "properties" not in found.schema:
                run.found[number] = replace(found, schema=schema)

    return check


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_MAKERS: dict[str, Callable[[_Compiler, Schema], Check]] = {
    "$ref": lambda compiler, schema: compiler.reference(schema),
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minLength": _bound("minLength", _is_text, lambda v, limit: len(v) < limit),
    "maxLength": _bound("maxLength", _is_text, lambda v, limit: len(v) > limit),
    "minimum": _bound("minimum", is_number, lambda v, limit: v < limit),
    "maximum": _bound("maximum", is_number, lambda v, limit: v > limit),
    "exclusiveMinimum": _bound("exclusiveMinimum", is_number, lambda v, limit: v <= limit),
    "minItems": _bound("minItems", lambda v: isinstance(v, list), lambda v, n: len(v) < n),
    "maxItems": _bound("maxItems", lambda v: isinstance(v, list), lambda v, n: len(v) > n),
    "minProperties": _bound(
        "minProperties", lambda v: isinstance(v, dict), lambda v, n: len(v) < n
    ),
    "uniqueItems": _unique,
    "required": _required,
    "properties": _object,
    "patternProperties": lambda c, s: _accept if "properties" in s else _object(c, s),
    "additionalProperties": lambda c, s: (
        _accept if "properties" in s or "patternProperties" in s else _object(c, s)
    ),
    "propertyNames": _property_names,
    "items": _items,
    "anyOf": _any_of,
    "allOf": _every_of,
    "not": _not,
    "if": _if,
}
