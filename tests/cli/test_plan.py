"""`orchestrate plan` in its four formats."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from orchestrate.testing import Project
from tests.cli.conftest import MACHINE

RECIPES = ("tidy", "look", "words")


def test_text_shows_every_step_and_route(project: Project) -> None:
    result = project.run("plan", "workflows/tidy.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert lines[0] == "machine workflows/tidy.yaml"
    for line in (
        "block main, starts at clean",
        "complete -> check",
        'other -> FINISH "user-provided-other"',
        "again -> RESTART workflows/tidy.yaml",
        'prompt: "Clean the code."',
        'prompt: "Check it." (2 lines, 21 characters)',
        "model: haiku",
        "@lost -> check",
    ):
        assert line in lines, line


# Every plan in every format, in a process whose sets have an order of their own.
PLANS = f"""
import sys
from pathlib import Path
from orchestrate.testing import Project
project = Project(Path(sys.argv[1]))
for name in {RECIPES}:
    for shape in ("text", "json", "mermaid", "dot", "svg"):
        print(project.run("plan", name, "--format", shape).assert_success().stdout)
"""


def test_output_is_deterministic(project: Project) -> None:
    once, again = (
        subprocess.run(
            [sys.executable, "-c", PLANS, str(project.folder)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        for seed in ("1", "2")
    )
    assert len(once.stdout) > 1000
    assert once.stdout == again.stdout


def test_json_has_whole_prompts_and_kinds(project: Project) -> None:
    document = project.run("plan", "tidy", "--json").json()
    (plan,) = document["plans"]
    assert document["main"] == plan["id"] == "workflows/tidy.yaml"
    check = plan["blocks"][0]["nodes"][1]
    assert check["op"]["kind"] == "ask"
    assert check["op"]["prompt"] == {"kind": "text", "parts": ["Check it.\nAll of it.\n"]}
    assert dict(check["routes"])["again"] == {"kind": "restart", "plan": plan["id"]}
    assert dict(check["routes"])["@failed"]["kind"] == "abort"
    assert dict(check["routes"])["@failed"]["failure"] == "agent"


def test_mermaid_draws_loops_as_frames_and_leaves_policy_out(project: Project) -> None:
    out = project.run("plan", "words", "--format", "mermaid").stdout
    assert out.startswith("flowchart TD\n")
    assert out.count("subgraph ") == out.count("\n  end\n") == 1
    assert "lost" not in out
    assert '|"failure' not in out
    assert '-->|"failed"|' in out  # the author's own handler


def test_a_label_that_reads_as_another_one_is_drawn_once(project: Project) -> None:
    """A command's own `failed` and the policy's `@failed` often lead to the same end."""
    ends = "{passed: {action: exit, reason: good}, failed: {action: exit, reason: bad}}"
    project.write("one.yaml", "id: one\nlabel: One\ndescription: One.\ninitialStep: a\nsteps:\n"
                  f"  a: {{command: ['true'], onOutcome: {ends}}}\n")  # fmt: skip
    out = project.run("plan", "one.yaml", "--format", "mermaid").assert_success().stdout
    assert '|"failed"|' in out


def test_texts_cannot_break_a_drawing(project: Project) -> None:
    reason = 'a"] --> x\\n; end `%%{}`|#quot;<b>'
    project.write("odd.yaml", MACHINE.replace("all-good", f"'{reason}'"))
    mermaid = project.run("plan", "odd.yaml", "--format", "mermaid")
    assert mermaid.exit_code == 0, mermaid
    node = re.compile(r'  \w+(\(\(|\[\[|\[|\(\[|>|\{\{|\{)"[^"]*"(\)\)|\]\]|\]|\]\)|\}\}|\})')
    edge = re.compile(r'  \w+ (-->|-\.->|==>)(\|"[^"|]*"\|)? \w+')
    for line in mermaid.stdout.splitlines()[1:]:
        assert node.fullmatch(line) or edge.fullmatch(line), line
    dot = project.run("plan", "odd.yaml", "--format", "dot").stdout
    string = r'"(?:[^"\\]|\\.)*"'
    statement = re.compile(rf"  \w+( -> \w+)? \[label={string}(, (shape|style)=\w+)?\];")
    for line in dot.splitlines()[2:-1]:
        assert statement.fullmatch(line), line


def test_errors_go_to_stderr_with_the_definitions_code(project: Project) -> None:
    result = project.run("plan", "broken/tidy.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error E203" in result.stderr
    assert project.run("plan", "nowhere.yaml").exit_code == 2
    as_json = project.run("plan", "broken/tidy.yaml", "--json")
    assert as_json.exit_code == 1
    assert as_json.json()["diagnostics"][0]["code"] == "E203"
    assert as_json.json()["error"]["exit_code"] == 1


def test_warnings_go_to_stderr_and_the_plan_is_shown(project: Project) -> None:
    project.write("workflows/look2.yaml", "$include: look.yaml\nname: look2\n")
    (project.folder / ".orchestrate/agents/reader.md").unlink()
    result = project.run("plan", "look2")
    assert result.exit_code == 0
    assert "warning W104" in result.stderr
    assert result.stdout.startswith("recipe workflows/look2.yaml\n")
