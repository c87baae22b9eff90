"""30, promise 17: conditions, templates, patterns and reports take time in proportion."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine import evaluate
from orchestrate.engine.patterns import match_pattern
from orchestrate.lang.condition import parse_condition
from orchestrate.lang.curly import parse_template
from orchestrate.lang.dollar import parse_dollar
from orchestrate.workspace import open_workspace
from tests.acceptance.fakes import Stage

SIZE = 200_000
# Of the processor, which others may keep busy; what took a quadratic time would take minutes.
PATIENCE_S = 20.0
PARSERS: dict[Callable[[str], Any], dict[str, str]] = {
    parse_condition: {
        "a chain": " and ".join(['{{a}} == "x"'] * (SIZE // 16)),
        "no end of a text": '{{a}} == "' + "x" * SIZE,
        "spaces": "{{a}}" + " " * SIZE + '== "x"',
        "backslashes": '{{a}} == "' + "\\" * SIZE + '"',
        "parentheses": "(" * SIZE,
        "nots": "not " * (SIZE // 4) + "{{a}}",
        "a path": "{{" + "a." * (SIZE // 2) + "b}} == 1",
        "digits": "{{a}} == " + "1" * SIZE,
    },
    parse_template: {
        "openings": "{{" * (SIZE // 2),
        "references": "{{a}}" * (SIZE // 5),
        "spaces": "{{" + " " * SIZE + "a}}",
        "openings and spaces": ("{{ " + " " * 50) * (SIZE // 53),
        "closings": "}}" * (SIZE // 2),
        "braces": "{" * SIZE,
        "a path": "{{" + "a." * (SIZE // 2) + "}}",
        "marks": "{{a" + "?" * SIZE + "}}",
    },
    parse_dollar: {
        "openings": "${" * (SIZE // 2),
        "references": "${a}" * (SIZE // 4),
        "spaces": "${" + " " * SIZE + "a}",
        "dollars": "$" * SIZE,
        "a path": "${" + "a." * (SIZE // 2) + "b}",
    },
}


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
def test_truth_30_hostile_texts_are_parsed_in_time(parse: Callable[[str], Any]) -> None:
    for name, text in PARSERS[parse].items():
        began = time.process_time()
        parse(text)  # whether it is right or wrong
        took = time.process_time() - began
        assert took < PATIENCE_S, f"{name}: {took:.1f} s"


def test_truth_30_hostile_file_patterns_end(tmp_path: Path) -> None:
    (tmp_path / ("a" * 250)).touch()
    began = time.monotonic()
    assert match_pattern(open_workspace(tmp_path), "*a" * 100 + "*b") == []
    assert time.monotonic() - began < PATIENCE_S


DOUBLING = """
    version: "1.1"
    name: doubling
    steps:
      - {name: Big, command: [sh, -c, "head -c 8000 /dev/zero | tr '\\\\0' x"]}
      - {name: Fill, command: [echo, "TEXT"]}
"""


def test_truth_30_a_text_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values that are filled in many times are a fault of the step, not the end of the machine."""
    monkeypatch.setattr(evaluate, "LONGEST_TEXT", 1 << 20)
    stage = Stage(tmp_path)
    stage.write("w.yaml", DOUBLING.replace("TEXT", "${steps.Big.output}" * 200))
    said = stage.run("run", "w.yaml").assert_exit(1)
    assert "a text becomes longer than 1 MiB when it is filled in" in said.stderr
    result = stage.look(said).step("Fill")
    assert (result["status"], result["exit_code"]) == ("failed", 2)


PRINT = """
import json, sys
size = 500_000
print({
    "ticks": "`" * size, "angles": "<" * size, "escapes": "\\x1b[" * size, "names": "@a " * size,
    "addresses": "http://a" * (size // 8), "stars": "*_" * size, "bars": "|\\n" * 9000,
    "directions": "\\u202e" * size, "deep": "[" * 199 + "]" * 199,
    "wide": json.dumps({f"k{n}": n for n in range(50_000)}),
}[sys.argv[1]])
"""
KINDS = ["ticks", "angles", "escapes", "names", "addresses", "stars", "bars", "directions"]


def test_truth_30_reports_of_hostile_output_are_written_in_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("print.py", PRINT)
    steps = [
        {"name": kind, "command": ["python3", "print.py", kind], "output_capture": capture}
        for kinds, capture in ((KINDS, "lines"), (["deep", "wide"], "json"))
        for kind in kinds
    ]
    document = {"version": "1.1", "name": "hostile", "steps": steps}
    stage.write("w.yaml", json.dumps(document))
    stage.run("run", "w.yaml", timeout_s=120).assert_success()
    for kind in ("html", "md"):
        began = time.monotonic()
        stage.run("report", "--format", kind, "-o", f"r.{kind}").assert_success()
        assert time.monotonic() - began < PATIENCE_S
        assert (stage.folder / f"r.{kind}").stat().st_size < 2_000_000
