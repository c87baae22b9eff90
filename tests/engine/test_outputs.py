"""Captured JSON against the author's schema and requirements (C 1.3)."""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine.confine import PathFault
from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.outputs import (
    SCHEMA_LIMIT,
    check_output,
    check_requirements,
    is_absent,
    resolve_pointer,
)
from orchestrate.plan.data import Require
from orchestrate.workspace import Workspace
from tests.engine.conftest import Write
from tests.engine.values import Values, text

VERDICT = {
    "type": "object",
    "required": ["approved", "issues"],
    "properties": {
        "approved": {"type": "boolean"},
        "issues": {"type": "array", "items": {"type": "string"}},
        "severity": {"enum": ["low", "high", None]},
        "version": {"const": 1},
        "score": {"type": ["number", "null"], "minimum": 0},
    },
    "additionalProperties": False,
}


def check_schema(value: Any, path: str, workspace: Workspace) -> None:
    check_output(value, schema=path, require=(), workspace=workspace)


def refusal(require: Require, value: Any) -> dict[str, str]:
    with pytest.raises(StepFault) as caught:
        check_requirements(value, [require])
    assert caught.value.exit_code == 2
    found: dict[str, str] = caught.value.context["json_require_failed"]
    assert found["reason"] in caught.value.message
    return found


class TestSchema:
    @pytest.fixture(autouse=True)
    def verdict(self, write: Write) -> None:
        write("schemas/verdict.json", json.dumps(VERDICT))

    def errors(self, workspace: Workspace, value: Any, path: str = "schemas/verdict.json") -> Any:
        with pytest.raises(StepFault) as caught:
            check_schema(value, path, workspace)
        assert caught.value.exit_code == 2
        return caught.value.context["json_schema_errors"]

    def test_pass(self, workspace: Workspace) -> None:
        """C acceptance (1.3) 1."""
        check_schema({"approved": True, "issues": ["x"], "score": None},
                     "schemas/verdict.json", workspace)  # fmt: skip

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            ({"approved": "yes"}, "/approved: is a string, not a boolean"),
            ({"approved": None}, "/approved: is null, not a boolean"),
            ({"issues": ["a", 1]}, "/issues/1: is a number, not a string"),
            ({"severity": True}, '/severity: is true, not one of ["low", "high", null]'),
            ({"version": True}, "/version: is true, not 1"),
            ({"score": "x"}, "/score: is a string, not a number or null"),
            ({"score": -1}, "/score: -1 is less than the minimum of 0"),
        ],
    )
    def test_fail(self, workspace: Workspace, change: dict[str, Any], error: str) -> None:
        """C acceptance (1.3) 2."""
        value = {"approved": True, "issues": []} | change
        assert self.errors(workspace, value) == [error]

    def test_several_errors(self, workspace: Workspace) -> None:
        found = self.errors(workspace, {"extra/x": 1})
        assert found[:2] == ["/approved: is missing", "/issues: is missing"]
        assert "'extra/x'" in found[2]
        assert self.errors(workspace, []) == ["(top): is an array, not an object"]

    def test_no_endless_message(self, workspace: Workspace) -> None:
        value = {"approved": True, "issues": list(range(1000)), "severity": "x" * 10_000}
        found = self.errors(workspace, value)
        assert found[-1] == "… and more"
        assert len(found) == 21
        assert all(len(error) < 400 for error in found)

    def test_half_a_character(self, workspace: Workspace) -> None:
        found = self.errors(workspace, {"approved": True, "issues": [], "\ud800": 1})
        assert found[0].encode("utf-8")

    @pytest.mark.parametrize(
        "draft",
        ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"],
    )
    def test_declared_drafts(self, workspace: Workspace, write: Write, draft: str) -> None:
        write("s.json", json.dumps({"$schema": draft, "type": "null"}))
        check_schema(None, "s.json", workspace)
        assert self.errors(workspace, 1, "s.json") == ["(top): is a number, not null"]

    def test_references_within_the_file(self, workspace: Workspace, write: Write) -> None:
        schema = {"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}
        write("s.json", json.dumps(schema))
        check_schema([1], "s.json", workspace)
        assert self.errors(workspace, ["x"], "s.json") == ["/0: is a string, not a number"]

    @pytest.mark.parametrize(
        ("schema", "reason"),
        [
            ("{", "is not JSON"),
            ("", "is not JSON"),
            ("[" * 100_000, "is not JSON"),
            ("[]", "is an array, not an object"),
            ('{"type": "nope"}', "/type: "),
            ('{"pattern": "("}', "/pattern: "),
            ('{"$schema": "https://example.com/mine"}', "$schema is"),
            ('{"$schema": 7}', "$schema is"),
            ('{"$ref": "#"}', "refers to itself"),
            ('{"$ref": "#/missing"}', "nothing is fetched"),
            ('{"$ref": "other.json"}', "'other.json' is not in the file, and nothing is fetched"),
            ('{"$ref": "file:///etc/passwd"}', "nothing is fetched"),
            ('{"$ref": "http://127.0.0.1:9/x.json"}', "nothing is fetched"),
            (f'{{"title": "{"x" * SCHEMA_LIMIT}"}}', "more than 1.0 MiB"),
        ],
        ids=lambda value: value[:20],
    )
    def test_unusable(
        self,
        workspace: Workspace,
        write: Write,
        monkeypatch: pytest.MonkeyPatch,
        schema: str,
        reason: str,
    ) -> None:
        fetched: list[object] = []

        def fetch(*asked: object, **_: object) -> NoReturn:
            fetched.append(asked)
            raise OSError("nothing may be fetched")

        monkeypatch.setattr(urllib.request, "urlopen", fetch)
        monkeypatch.setattr(socket, "create_connection", fetch)
        write("other.json", "{}")
        write("s.json", schema)
        with pytest.raises(StepFault) as caught:
            check_schema({}, "s.json", workspace)
        assert fetched == []
        assert caught.value.exit_code == 2
        assert caught.value.message.startswith("output_schema 's.json' cannot be used: ")
        assert reason in caught.value.message
        assert len(caught.value.message) < 500

    def test_the_path_has_variables(self, workspace: Workspace) -> None:
        """C acceptance (1.3) 9."""
        path = render(
            text("schemas/${context.kind}.json"), Values({"context": {"kind": "verdict"}})
        )
        check_schema({"approved": True, "issues": []}, path, workspace)

    @pytest.mark.parametrize("path", ["/etc/passwd", "../s.json", "out/secret.txt", "gone", "fifo"])
    def test_unsafe_paths(self, workspace: Workspace, outside: Path, path: str) -> None:
        """C acceptance (1.3) 9."""
        (workspace.root / "out").symlink_to(outside)
        os.mkfifo(workspace.root / "fifo")
        with pytest.raises(PathFault) as caught:
            check_schema({}, path, workspace)
        assert "do-not-show-this" not in caught.value.message


class TestRequire:
    value = json.loads('{"approved": true, "n": 1, "a/b": {"~": [null]}, "issues": [], "": "e"}')

    @pytest.mark.parametrize(
        "require",
        [
            Require("/approved"),
            Require(""),
            Require("/"),
            Require("/a~1b/~0/0", has_equals=True, equals=None),
            Require("/gone", exists=False),
            Require("/approved", has_equals=True, equals=True),
            Require("/n", has_equals=True, equals=1.0),
            Require("/", has_equals=True, equals="e"),
            Require("", type="object"),
            Require("/issues", type="array"),
            Require("/n", type="number"),
            Require("/approved", type="boolean"),
            Require("/a~1b/~0/0", type="null"),
            Require("/", type="string"),
        ],
    )
    def test_met(self, require: Require) -> None:
        """C acceptance (1.3) 5, 6, 7."""
        check_requirements(self.value, [require])

    @pytest.mark.parametrize(
        ("require", "reason"),
        [
            (Require("/gone"), "is missing"),
            (Require("/issues/0"), "is missing"),
            (Require("/issues/-"), "is missing"),
            (Require("/a~1b/~0/00"), "is missing"),
            (Require("/n/x"), "is missing"),
            (Require("/gone", has_equals=True, equals=None), "is missing"),
            (Require("/n", exists=False), "exists, but must not"),
            (Require("/approved", has_equals=True, equals=False), "is true, not false"),
            (Require("/approved", has_equals=True, equals=1), "is true, not 1"),
            (Require("/approved", has_equals=True, equals="true"), 'is true, not "true"'),
            (Require("/n", has_equals=True, equals=True), "is 1, not true"),
            (Require("/n", has_equals=True, equals="1"), 'is 1, not "1"'),
            (Require("/n", has_equals=True, equals=None), "is 1, not null"),
            (Require("/issues", has_equals=True, equals=""), 'is [], not ""'),
            (Require("/approved", type="number"), "is a boolean, not a number"),
            (Require("/issues", type="object"), "is an array, not an object"),
            (Require("/a~1b/~0/0", type="string"), "is null, not a string"),
        ],
    )
    def test_not_met(self, require: Require, reason: str) -> None:
        """C acceptance (1.3) 5, 6, 7."""
        assert refusal(require, self.value) == {"pointer": require.pointer, "reason": reason}

    def test_the_first_failure_is_told(self) -> None:
        """C acceptance (1.3) 8."""
        requirements = [Require("/n"), Require("/x"), Require("/y")]
        with pytest.raises(StepFault) as caught:
            check_requirements(self.value, requirements)
        assert caught.value.context == {
            "json_require_failed": {"pointer": "/x", "reason": "is missing"}
        }

    def test_a_long_value_is_clipped(self) -> None:
        found = refusal(Require("", has_equals=True, equals="y"), "x" * 10_000)
        assert len(found["reason"]) < 100


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_every_key_can_be_pointed_at(value: Any) -> None:
    pointer = ""
    inner = value
    while isinstance(inner, dict) and inner:
        key, inner = next(iter(inner.items()))
        pointer += "/" + key.replace("~", "~0").replace("/", "~1")
    assert resolve_pointer(value, pointer) == inner
    assert is_absent(resolve_pointer(value, pointer + "/gone")) or isinstance(inner, dict)


def test_the_schema_comes_first(workspace: Workspace, write: Write) -> None:
    write("s.json", '{"type": "array"}')
    with pytest.raises(StepFault) as caught:
        check_output({}, schema="s.json", require=[Require("/x")], workspace=workspace)
    assert "json_schema_errors" in caught.value.context
    with pytest.raises(StepFault) as caught:
        check_output([], schema="s.json", require=[Require("/x")], workspace=workspace)
    assert "json_require_failed" in caught.value.context
    check_output({"x": 1}, schema=None, require=[Require("/x")], workspace=workspace)
