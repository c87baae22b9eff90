"""Conditions: a step whose `when` does not hold is skipped, and nothing of it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from tests.acceptance.fakes import Stage

EQUAL = [
    ("${context.answer}", "yes", True),
    ("${context.answer}", "no", False),
    ("${context.answer}", "YES", False),
    ("${context.answer}", "yes ", False),
    ("${context.flag}", "true", True),
    ("${context.number}", "1.5", True),
    ("${steps.Facts.json.ok}", "true", True),
    ("${steps.Facts.json.n}", "3", True),
    ("${steps.Facts.json.n}", "${steps.Facts.json.text}", True),
    ("${steps.Facts.exit_code}", "0", True),
    ("a${context.answer}", "ayes", True),
    ("", "", True),
]
# A pattern, the files that are there, and whether any of them matches.
MATCHES: list[tuple[str, list[str], bool]] = [
    ("path/*.txt", ["path/a.txt"], True),
    ("path/*.txt", ["path/a.txt", "path/b.txt"], True),
    ("path/*.txt", ["path/a.md", "path/.a.txt", "path/deep/a.txt"], False),
    ("path/*.txt", [], False),
    ("path", ["path/a.txt"], True),
    ("${context.answer}/?.txt", ["yes/a.txt"], True),
    ("missing/*.bin", ["missing/a.txt"], False),
    ("missing/*.bin", ["missing/a.bin"], True),
]


def assert_conditions(stage: Stage, cases: list[tuple[dict[str, Any], bool]]) -> None:
    """One step per condition: it runs if the condition holds, else it is skipped."""
    steps: list[dict[str, Any]] = [
        {"name": "Facts", "command": ["cat", "facts.json"], "output_capture": "json"}
    ]
    for number, (condition, _) in enumerate(cases):
        name = f"Case{number}"
        steps.append({"name": name, "command": ["touch", f"ran{number}"], "when": condition})
        told = f"${{steps.{name}.status}} ${{steps.{name}.exit_code}}"
        steps.append({"name": f"After{number}", "command": ["echo", told]})
    context = {"answer": "yes", "number": 1.5, "flag": True}
    stage.write("facts.json", json.dumps({"ok": True, "n": 3, "text": "3"}))
    played = stage.play(json.dumps({"version": "1.1", "context": context, "steps": steps}))
    for number, (condition, holds) in enumerate(cases):
        step = played.step(f"Case{number}")
        status = "completed" if holds else "skipped"
        assert (step["status"], step["exit_code"]) == (status, 0), condition
        assert (stage.folder / f"ran{number}").exists() is holds, condition
        assert played.step(f"After{number}")["output"] == f"{status} 0\n"
        assert "error" not in step


def assert_matches(tmp_path: Path, word: Literal["exists", "not_exists"]) -> None:
    """Every pattern in a folder of its own."""
    stage = Stage(tmp_path)
    cases: list[tuple[dict[str, Any], bool]] = []
    for number, (pattern, files, matches) in enumerate(MATCHES):
        for name in files:
            stage.write(f"case{number}/{name}", "x")
        cases.append(({word: f"case{number}/{pattern}"}, matches is (word == "exists")))
    assert_conditions(stage, cases)


def test_at_037_equals_compares_texts(tmp_path: Path) -> None:
    cases = [({"equals": {"left": left, "right": right}}, holds) for left, right, holds in EQUAL]
    assert_conditions(Stage(tmp_path), cases)


def test_at_037_a_skipped_provider_is_not_called(tmp_path: Path) -> None:
    """Nothing of a skipped step is looked at: no file, no secret, no loop."""
    stage = Stage(tmp_path)
    stage.recorder("tool")
    played = stage.play("""
        version: "1.1"
        providers: {tool: {command: ["tool"]}}
        steps:
          - name: Ask
            provider: tool
            input_file: missing.md
            depends_on: {required: [missing.md]}
            secrets: [NOWHERE_TO_BE_FOUND]
            when: {equals: {left: a, right: b}}
          - name: Each
            when: {equals: {left: a, right: b}}
            for_each: {items: [1], steps: [{name: In, command: ["tool"]}]}
          - {name: Wait, wait_for: {glob: "never/*"}, when: {exists: "never/*"}}
    """)
    assert stage.words("tool") == []
    for name in ("Ask", "Wait"):
        assert (played.step(name)["status"], played.step(name)["exit_code"]) == ("skipped", 0)


def test_at_046_exists(tmp_path: Path) -> None:
    assert_matches(tmp_path, "exists")


def test_at_047_not_exists(tmp_path: Path) -> None:
    assert_matches(tmp_path, "not_exists")
