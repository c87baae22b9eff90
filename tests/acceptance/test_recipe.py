"""Dialect B from outside: its check-list, and rulings §8."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project

HEAD = """
    name: check
    description: Checks a file
    version: 1.0.0
    context: {file: a.py}
    steps:
"""
AGENT = "---\nname: reviewer\ndescription: Reviews\n---\nYou review code.\n"


def step(*lines: str) -> str:
    first, *rest = lines
    return f"      - {first}\n" + "".join(f"        {line}\n" for line in rest)


ONE = step("id: look", "agent: reviewer", 'prompt: "Look at {{file}}"', "output: report")


def codes(tmp_path: Path, text: str) -> list[str]:
    project = Project(tmp_path, {"r.yaml": text, ".orchestrate/agents/reviewer.md": AGENT})
    result = project.validate("r.yaml")
    found = result.codes()
    assert result.exit_code == (2 if any(code.startswith("E") for code in found) else 0)
    return found


def without(line: str) -> str:
    text = HEAD + ONE
    assert line in text
    return text.replace(line, "")


def test_the_pattern_itself_is_valid(tmp_path: Path) -> None:
    assert codes(tmp_path, HEAD + ONE) == []


def test_b_recipe_1_name(tmp_path: Path) -> None:
    assert codes(tmp_path, without("name: check")) == ["E102"]
    for bad in ("has space", "x" * 101, '""'):
        found = codes(tmp_path, (HEAD + ONE).replace("name: check", f"name: {bad}"))
        assert found in (["E105"], ["E106"])


def test_b_recipe_2_description(tmp_path: Path) -> None:
    assert codes(tmp_path, without("description: Checks a file")) == ["E102"]


@pytest.mark.parametrize("version", ['"1.0"', "1.0", "1.0.0-beta", "v1.0.0"])
def test_b_recipe_3_version(tmp_path: Path, version: str) -> None:
    assert codes(tmp_path, without("version: 1.0.0")) == ["E102"]
    found = codes(tmp_path, (HEAD + ONE).replace("version: 1.0.0", f"version: {version}"))
    assert found in (["E105"], ["E103"])


def test_b_recipe_4_steps_are_not_empty(tmp_path: Path) -> None:
    assert codes(tmp_path, HEAD.replace("steps:", "steps: []")) == ["E030"]
    assert codes(tmp_path, HEAD.replace("steps:", "stages: []")) == ["E107"]


def test_b_recipe_5_ids_are_unique_across_stages(tmp_path: Path) -> None:
    stages = HEAD.replace("steps:", "stages:") + "".join(
        f"      - name: {name}\n        steps: [{{id: look, agent: reviewer, prompt: x}}]\n"
        for name in ("one", "two")
    )
    assert codes(tmp_path, stages) == ["E302"]


def test_b_step_1_id(tmp_path: Path) -> None:
    assert codes(tmp_path, HEAD + ONE + ONE) == ["E302"]
    assert codes(tmp_path, HEAD + ONE + step("agent: reviewer", "prompt: x")) == ["E102"]


def test_b_step_2_agent(tmp_path: Path) -> None:
    """`language.md` §4: without an agent the run's own is asked."""
    assert codes(tmp_path, without("agent: reviewer")) == []
    assert codes(tmp_path, HEAD + step("id: a", "agent: ' '", "prompt: x")) == ["E303"]


@pytest.mark.parametrize("prompt", ['""', '"  "'])
def test_b_step_3_prompt(tmp_path: Path, prompt: str) -> None:
    assert codes(tmp_path, HEAD + step("id: a", "agent: reviewer")) == ["E303"]
    found = codes(tmp_path, HEAD + step("id: a", "agent: reviewer", f"prompt: {prompt}"))
    assert found in (["E303"], ["E106"])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{{file}} == 'a.py'", []),
        ("'a' == 'a'", ["E309"]),
        ("{{file}} = 'a'", ["E123"]),
        ("{{file}} > 'a'", []),
        ("not {{file}} == 'a'", []),
        ("({{file}} == 'a')", []),
        ("{{file}} == a", ["E123"]),
        ("{{file}}", []),
    ],
)
def test_b_step_4_conditions(tmp_path: Path, condition: str, expected: list[str]) -> None:
    lines = ("id: a", f'condition: "{condition}"', "agent: reviewer", "prompt: x")
    assert codes(tmp_path, HEAD + step(*lines)) == expected


@pytest.mark.parametrize(
    ("timeout", "code"), [("0", "E106"), ("-5", "E106"), ("1.5", "E103"), ('"10"', "E105")]
)
def test_b_step_5_timeout(tmp_path: Path, timeout: str, code: str) -> None:
    text = HEAD + step("id: a", "agent: reviewer", "prompt: x", f"timeout: {timeout}")
    assert codes(tmp_path, text) == [code]


@pytest.mark.parametrize("attempts", ["0", "-1"])
def test_b_step_6_attempts(tmp_path: Path, attempts: str) -> None:
    retry = f"retry: {{max_attempts: {attempts}}}"
    assert codes(tmp_path, HEAD + step("id: a", "agent: reviewer", "prompt: x", retry)) == ["E106"]


def test_b_step_7_on_error(tmp_path: Path) -> None:
    for value in ("fail", "continue", "skip_remaining"):
        text = HEAD + step("id: a", "agent: reviewer", "prompt: x", f"on_error: {value}")
        assert codes(tmp_path, text) == []
    text = HEAD + step("id: a", "agent: reviewer", "prompt: x", "on_error: ignore")
    assert codes(tmp_path, text) == ["E104"]


def test_b_step_8_dependencies_exist(tmp_path: Path) -> None:
    text = HEAD + ONE + step("id: b", "agent: reviewer", "prompt: x", "depends_on: [lok]")
    assert codes(tmp_path, text) == ["E308"]


def test_b_step_9_dependencies_do_not_circle(tmp_path: Path) -> None:
    text = HEAD + step("id: a", "agent: reviewer", "prompt: x", "depends_on: [b]")
    text += step("id: b", "agent: reviewer", "prompt: x", "depends_on: [a]")
    assert codes(tmp_path, text) == ["E308"]


@pytest.mark.parametrize("template", ["{{}}", "{{ file", "{{a b}}", "{{a..b}}", "{{file | upper}}"])
def test_b_variable_1_syntax(tmp_path: Path, template: str) -> None:
    text = HEAD + step("id: a", "agent: reviewer", f'prompt: "x {template}"')
    assert codes(tmp_path, text) == ["E120"]


def test_b_variable_2_availability(tmp_path: Path) -> None:
    later = step("id: first", "agent: reviewer", 'prompt: "{{report}}"') + ONE
    assert codes(tmp_path, HEAD + later) == ["W102"]


@pytest.mark.parametrize("field", ["output: step", "output: session"])
def test_b_variable_3_reserved_names(tmp_path: Path, field: str) -> None:
    text = HEAD + step("id: a", "agent: reviewer", "prompt: x", field)
    assert codes(tmp_path, text) == ["E307"]
    loop = step("id: a", 'foreach: "{{file}}"', "as: recipe", "agent: reviewer", "prompt: x")
    assert codes(tmp_path, HEAD.replace("a.py", "[a.py]") + loop) == ["E307"]


def test_b_runtime_1_agents_are_known(tmp_path: Path) -> None:
    assert codes(tmp_path, HEAD + step("id: a", "agent: revewer", "prompt: x")) == ["W104"]


def test_b_runtime_2_context_variables(tmp_path: Path) -> None:
    text = HEAD + step("id: a", "agent: reviewer", 'prompt: "{{target}}"')
    assert codes(tmp_path, text) == ["W103"]


def test_r8_1_stage_names_and_spaces(tmp_path: Path) -> None:
    stages = HEAD.replace("steps:", "stages:") + (
        '      - name: "Phase 1: Critical Fixes"\n'
        '        steps: [{id: a, agent: reviewer, prompt: "{{ file }} {{ recipe.name }}"}]\n'
    )
    assert codes(tmp_path, stages) == []


def test_r8_2_mixed_and_or(tmp_path: Path) -> None:
    condition = "{{file}} == 'a' and {{file}} == 'b' or {{file}} == 'c'"
    text = HEAD + step("id: a", f'condition: "{condition}"', "agent: reviewer", "prompt: x")
    assert codes(tmp_path, text) == ["W101"]


@pytest.mark.parametrize(("template", "expected"), [("{{fix}}", ["W102"]), ("{{fix?}}", [])])
def test_r8_3_outputs_of_steps_that_may_be_skipped(
    tmp_path: Path, template: str, expected: list[str]
) -> None:
    text = HEAD + step(
        "id: a", "condition: \"{{file}} == 'b'\"", "agent: reviewer", "prompt: x", "output: fix"
    )
    text += step("id: b", "agent: reviewer", f'prompt: "{template}"')
    assert codes(tmp_path, text) == expected


def test_r8_3_outputs_of_steps_that_may_fail(tmp_path: Path) -> None:
    text = HEAD + step("id: a", "agent: reviewer", "prompt: x", "output: fix", "on_error: continue")
    text += step("id: b", "agent: reviewer", 'prompt: "{{fix}}"')
    assert codes(tmp_path, text) == ["W102"]


def test_r8_4_places_of_agents(tmp_path: Path) -> None:
    project = Project(tmp_path, {"r.yaml": HEAD + ONE})
    shown = project.run("validate", "r.yaml").assert_success()
    assert ".orchestrate/agents/reviewer.md" in shown.stdout + shown.stderr
    assert ".claude/agents/reviewer.md" in shown.stdout + shown.stderr
    project.write(".claude/agents/reviewer.md", AGENT)
    assert project.validate("r.yaml").codes() == []
    project.write("r.yaml", (HEAD + ONE).replace("agent: reviewer", "agent: team:reviewer"))
    assert project.validate("r.yaml").codes() == ["W104"]
    project.write(".orchestrate/agents/team/reviewer.md", AGENT)
    assert project.validate("r.yaml").codes() == []


def test_an_absolute_sub_recipe_is_used_as_it_stands(tmp_path: Path) -> None:
    """B, `recipe`: absolute paths are taken as they are; relative ones stay in the workspace."""
    inside, library = tmp_path / "inside", tmp_path / "library"
    Project(library, {"child.yaml": HEAD + ONE})
    for path, expected in ((library / "child.yaml", []), (Path("../library/child.yaml"), ["E311"])):
        text = HEAD + step("id: call", "type: recipe", f"recipe: {path}")
        assert codes(inside, text) == expected
