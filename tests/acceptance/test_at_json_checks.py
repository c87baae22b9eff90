"""Captured JSON held against a schema and requirements (C 1.3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import Played, Stage

SCHEMA = {
    "type": "object",
    "required": ["approved", "issues"],
    "properties": {
        "approved": {"type": "boolean"},
        "issues": {"type": "array", "items": {"type": "string"}},
    },
}
GOOD = {"approved": True, "issues": []}
CHECK = """
    version: "1.3"
    context: {{which: verdict}}
    steps:
      - name: Ask
        command: ["cat", "answer.json"]
        output_capture: json
        {checks}
      - {{name: After, command: ["touch", "after"]}}
"""


def check(tmp_path: Path, checks: str, answer: Any, *, passes: bool, raw: bool = False) -> Played:
    """Run a step with checks on its answer; a failed check is exit 2 and stops the run."""
    stage = Stage(tmp_path)
    stage.write("schemas/verdict.json", json.dumps(SCHEMA))
    (stage.folder / "answer.json").write_text(answer if raw else json.dumps(answer))
    played = stage.play(CHECK.format(checks=checks), exit_code=0 if passes else 1)
    step = played.step("Ask")
    assert (step["status"], step["exit_code"]) == (("completed", 0) if passes else ("failed", 2))
    assert (stage.folder / "after").exists() is passes
    return played


def context_of(played: Played) -> dict[str, Any]:
    context: dict[str, Any] = played.step("Ask")["error"]["context"]
    return context


WITH_SCHEMA = "output_schema: schemas/verdict.json"


def test_at13_001_an_answer_that_fits(tmp_path: Path) -> None:
    played = check(tmp_path, WITH_SCHEMA, GOOD, passes=True)
    assert played.step("Ask")["json"] == GOOD
    assert played.state["schema_version"] == "1.3"


def test_at13_002_an_answer_that_does_not_fit(tmp_path: Path) -> None:
    answer = {"approved": "yes", "issues": [7]}
    errors = context_of(check(tmp_path, WITH_SCHEMA, answer, passes=False))["json_schema_errors"]
    assert all(isinstance(error, str) for error in errors)
    # Each error says where and what.
    assert any("/approved" in error and "string" in error for error in errors)
    assert any("/issues/0" in error for error in errors)


def test_at13_002_a_missing_field(tmp_path: Path) -> None:
    played = check(tmp_path, WITH_SCHEMA, {"approved": True}, passes=False)
    (error,) = context_of(played)["json_schema_errors"]
    assert "issues" in error


def test_at13_002_the_message_is_for_people(tmp_path: Path) -> None:
    played = check(tmp_path, WITH_SCHEMA, {"approved": True}, passes=False)
    assert "schemas/verdict.json" in played.step("Ask")["error"]["message"]


@pytest.mark.parametrize("text", ["Looks good to me!", "", '{"approved": true'])
def test_at13_003_an_answer_that_is_no_json(tmp_path: Path, text: str) -> None:
    played = check(tmp_path, WITH_SCHEMA, text, passes=False, raw=True)
    assert "JSON" in played.step("Ask")["error"]["message"]
    assert "json_schema_errors" not in context_of(played)


def test_at13_004_run_refuses_allowed_parse_errors(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for checks in (WITH_SCHEMA, "output_require: [{pointer: /approved}]"):
        text = CHECK.format(checks=checks + "\n        allow_parse_error: true")
        stage.refuse(text.replace('["cat", "answer.json"]', '["touch", "started"]'))


REQUIREMENTS: list[tuple[str, dict[str, Any], Any, bool]] = [
    ("at13_005", {"pointer": "/approved"}, {"approved": False}, True),
    ("at13_005", {"pointer": "/approved"}, {"approved": None}, True),
    ("at13_005", {"pointer": "/approved"}, {"other": 1}, False),
    ("at13_005", {"pointer": "/a~1b/~0/1"}, {"a/b": {"~": [0, 1]}}, True),
    ("at13_005", {"pointer": "/list/2"}, {"list": [0, 1]}, False),
    ("at13_005", {"pointer": ""}, {"any": "thing"}, True),
    ("at13_005", {"pointer": "/no", "exists": False}, {"yes": 1}, True),
    ("at13_005", {"pointer": "/no", "exists": False}, {"no": 1}, False),
    ("at13_006", {"pointer": "/approved", "equals": True}, {"approved": True}, True),
    ("at13_006", {"pointer": "/approved", "equals": True}, {"approved": "true"}, False),
    ("at13_006", {"pointer": "/approved", "equals": True}, {"approved": 1}, False),
    ("at13_006", {"pointer": "/approved", "equals": True}, {"approved": False}, False),
    ("at13_006", {"pointer": "/approved", "equals": True}, {}, False),
    ("at13_006", {"pointer": "/n", "equals": 1}, {"n": 1.0}, True),
    ("at13_006", {"pointer": "/n", "equals": 1}, {"n": True}, False),
    ("at13_006", {"pointer": "/n", "equals": None}, {"n": None}, True),
    ("at13_006", {"pointer": "/n", "equals": None}, {"n": 0}, False),
    ("at13_006", {"pointer": "/n", "equals": "x"}, {"n": "x"}, True),
    ("at13_007", {"pointer": "/issues", "type": "array"}, {"issues": []}, True),
    ("at13_007", {"pointer": "/issues", "type": "array"}, {"issues": {}}, False),
    ("at13_007", {"pointer": "/issues", "type": "array"}, {"issues": "[]"}, False),
    ("at13_007", {"pointer": "/x", "type": "number"}, {"x": 1.5}, True),
    ("at13_007", {"pointer": "/x", "type": "number"}, {"x": True}, False),
    ("at13_007", {"pointer": "/x", "type": "null"}, {"x": None}, True),
    ("at13_007", {"pointer": "/x", "type": "boolean"}, {"x": 0}, False),
    ("at13_007", {"pointer": "/x", "type": "object"}, {"x": {}}, True),
    ("at13_007", {"pointer": "/x", "type": "string"}, {"x": ""}, True),
]


def assert_requirements(tmp_path: Path, item: str) -> None:
    """All cases of an item in one run: a step per case, going on after failures."""
    stage = Stage(tmp_path)
    cases = [case for case in REQUIREMENTS if case[0] == item]
    steps = []
    for number, (_, requirement, answer, _) in enumerate(cases):
        stage.write(f"{number}.json", json.dumps(answer))
        steps.append(
            {
                "name": f"Case{number}",
                "command": ["cat", f"{number}.json"],
                "output_capture": "json",
                "output_require": [requirement],
            }
        )
    workflow = json.dumps({"version": "1.3", "steps": steps})
    played = stage.play(workflow, "--on-error", "continue", exit_code=1)
    for number, (_, requirement, answer, passes) in enumerate(cases):
        step = played.step(f"Case{number}")
        assert step["exit_code"] == (0 if passes else 2), (requirement, answer)
        if passes:
            assert step["json"] == answer
        else:
            failed = step["error"]["context"]["json_require_failed"]
            assert failed["pointer"] == requirement["pointer"]
            assert failed["reason"]


def test_at13_005_require_exists(tmp_path: Path) -> None:
    assert_requirements(tmp_path, "at13_005")


def test_at13_006_require_equals(tmp_path: Path) -> None:
    assert_requirements(tmp_path, "at13_006")


def test_at13_007_require_type(tmp_path: Path) -> None:
    assert_requirements(tmp_path, "at13_007")


SEVERAL = """output_require:
          - {pointer: /approved, equals: true}
          - {pointer: /issues, type: array}
          - {pointer: /task_id, type: string}"""


def test_at13_008_all_must_hold(tmp_path: Path) -> None:
    check(tmp_path, SEVERAL, {**GOOD, "task_id": "t"}, passes=True)


def test_at13_008_the_first_failure_is_recorded(tmp_path: Path) -> None:
    played = check(tmp_path, SEVERAL, {"approved": True, "issues": "no list"}, passes=False)
    assert context_of(played)["json_require_failed"]["pointer"] == "/issues"


def test_at13_008_requirements_and_a_schema(tmp_path: Path) -> None:
    both = WITH_SCHEMA + "\n        " + SEVERAL
    check(tmp_path, both, {**GOOD, "task_id": "t"}, passes=True)


def test_at13_009_the_schema_may_be_chosen_by_a_variable(tmp_path: Path) -> None:
    checks = 'output_schema: "schemas/${context.which}.json"'
    played = check(tmp_path, checks, {"approved": 1, "issues": []}, passes=False)
    assert context_of(played)["json_schema_errors"]


@pytest.mark.parametrize("place", ["../outside.json", "/etc/hostname", "link.json", "gone.json"])
def test_at13_009_the_schema_stays_in_the_workspace(tmp_path: Path, place: str) -> None:
    stage = Stage(tmp_path, {"answer.json": json.dumps(GOOD)})
    (tmp_path / "outside.json").write_text("{}")
    (stage.folder / "link.json").symlink_to(tmp_path / "outside.json")
    text = CHECK.format(checks='output_schema: "${context.which}"')
    played = stage.play(text, "--context", f"which={place}", exit_code=1)
    assert played.step("Ask")["exit_code"] == 2
    assert place in played.step("Ask")["error"]["message"]


def test_at13_010_too_much_json_is_not_checked(tmp_path: Path) -> None:
    answer = {**GOOD, "issues": ["x" * (1024 * 1024)]}
    played = check(tmp_path, WITH_SCHEMA, answer, passes=False)
    assert "json" not in played.step("Ask")
    assert "json_schema_errors" not in context_of(played)
    assert played.log("Ask.stdout") == json.dumps(answer)


def test_a_provider_may_be_checked_too(tmp_path: Path) -> None:
    """C 1.3 is for steps with `output_capture: json`, whatever runs them."""
    stage = Stage(tmp_path, {"prompt.md": "Judge."})
    stage.program("judge", 'print(json.dumps({"approved": "no"}))')
    played = stage.play(
        """
        version: "1.3"
        providers: {judge: {command: ["judge"], input_mode: stdin}}
        steps:
          - name: Ask
            provider: judge
            input_file: prompt.md
            output_capture: json
            output_require: [{pointer: /approved, equals: true}]
            retries: {max: 2}
        """,
        exit_code=1,
    )
    # 2 is final: the same question would be answered the same way.
    assert (played.step("Ask")["exit_code"], len(stage.calls("judge"))) == (2, 1)
