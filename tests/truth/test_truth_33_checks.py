"""Small things that trials found: what is refused or warned of before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.dialects.agent_definitions import AgentFile, read_agent
from orchestrate.workspace import Workspace
from tests.acceptance.fakes import Stage
from tests.machines.fakes import PAIR, machine

WARM = """
    version: "1.1"
    name: warm
    steps:
      - {name: Ask, provider: claude, input_file: p.md, provider_params: {temperature: 0.2}}
"""
ARMED_AGENT = "---\nname: armed\ndescription: Armed\ntools: Read\n---\nHelp.\n"


def test_truth_33_settings_that_run_refuses_are_not_let_through(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": WARM, "p.md": "Hello.\n"})
    stage.claude("def answer(prompt): return 'done'")

    checked = stage.run("validate", "w.yaml").assert_success()
    said = "step 'Ask': Claude Code cannot take the setting 'temperature'"
    assert f"w.yaml:4:71: warning W108: {said}" in checked.stdout
    assert "^^^^^^^^^^^" in checked.stdout
    stage.run("validate", "w.yaml", "--strict").assert_exit(2)
    dry = stage.run("run", "w.yaml", "--dry-run").assert_exit(5)
    run = stage.run("run", "w.yaml").assert_exit(5)
    for refused in (dry, run):
        assert f"w.yaml:4:71: error E128: {said}" in refused.stderr
        assert "^^^^^^^^^^^" in refused.stderr
    assert stage.calls("claude") == []


def test_truth_33_settings_for_the_runs_own_agent_are_checked_too(tmp_path: Path) -> None:
    recipe = """
        name: warm
        description: A step that names no agent.
        version: "1.0.0"
        steps:
          - {id: ask, prompt: Hello., agent_config: {temperature: 0.2}}
    """
    stage = Stage(tmp_path, {"r.yaml": recipe})
    said = "step 'ask': Claude Code cannot take the setting 'temperature'"
    assert said in stage.run("validate", "r.yaml").assert_success().stdout
    assert said in stage.run("run", "r.yaml", "--dry-run").assert_exit(5).stderr


def test_truth_33_the_file_of_an_agent_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at each step that names it: that took a sixth of checking 2,000 steps."""
    stage = Stage(tmp_path, {".orchestrate/agents/armed.md": ARMED_AGENT})
    steps = "".join(f"  - {{id: ask{n}, agent: armed, prompt: Hello.}}\n" for n in range(5))
    stage.write("r.yaml", f'name: r\ndescription: d\nversion: "1.0.0"\nsteps:\n{steps}')
    looked: list[str] = []

    def look(name: str, workspace: Workspace) -> AgentFile:
        looked.append(name)
        return read_agent(name, workspace)

    monkeypatch.setattr("orchestrate.app.definitions.agent_definitions.read_agent", look)
    stage.run("validate", "r.yaml").assert_success()
    assert looked == ["armed"]


def test_truth_33_a_setting_is_shown_where_it_is_written(tmp_path: Path) -> None:
    """In a machine by its own spelling; one of the agent's file at the step that names it."""
    stage = Stage(tmp_path, {".orchestrate/agents/armed.md": ARMED_AGENT})
    stage.write(".orchestrate/config.yaml", "backend: codex\n")
    text = machine({"only": {"done": "!over"}})
    stage.write("m.yaml", text.replace("    prompt:", "    maxTurns: 3\n    prompt:"))
    steps = "steps:\n  - id: ask\n    agent: armed\n    prompt: Name your tools.\n"
    stage.write("r.yaml", f'name: r\ndescription: d\nversion: "1.0.0"\n{steps}')
    for name, line, column in (("m.yaml", "    maxTurns: 3", 5), ("r.yaml", "  - id: ask", 9)):
        checked = stage.run("validate", name, "--json").assert_success()
        (found,) = json.loads(checked.stdout)["files"][0]["diagnostics"]
        lines = (stage.folder / name).read_text("utf-8").splitlines()
        assert (found["code"], lines[found["line"] - 1], found["column"]) == ("W108", line, column)


def test_truth_33_settings_that_fit_are_no_news(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": WARM.replace("temperature: 0.2", "model: opus")})
    stage.write("p.md", "Hello.\n")

    assert stage.run("validate", "w.yaml").assert_success().stderr == ""
    stage.run("run", "w.yaml", "--dry-run").assert_success()


def test_truth_33_recipes_of_one_name_are_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"workflows/a.yaml": PAIR, "workflows/sub/b.yaml": PAIR})
    stage.write("workflows/c.yaml", machine({"only": {"done": "!over"}}, name="another"))

    result = stage.run("validate", "--all").assert_success()

    assert "2 recipes are called 'trial': workflows/a.yaml, workflows/sub/b.yaml" in result.stderr
    assert "another" not in result.stderr
    result = stage.run("validate", "--all", "--json").assert_success()
    assert len(result.json()["files"]) == 3


def deep(number: int, last: int, more: str = "", step: str = "") -> str:
    head = f"name: r{number}\ndescription: d\nversion: 1.0.0\n{more}"
    if number == last:
        return head + "steps:\n  - {id: work, agent: writer, prompt: Work.}\n"
    return head + f"steps:\n  - {{id: call, type: recipe, recipe: r{number + 1}.yaml{step}}}\n"


def put_chain(stage: Stage, length: int, step: str = "", child: str = "") -> None:
    stage.write(".orchestrate/agents/writer.md", "---\nname: writer\n---\nYou write.\n")
    for number in range(1, length + 1):
        more = "recursion: {max_depth: 2}\n" if number == 1 else child
        own = step if number == 1 else ""
        stage.write(f"r{number}.yaml", deep(number, length, more, own))


@pytest.mark.parametrize(
    ("step", "child", "code"),
    [
        ("", "", 3),
        ("", "recursion: {max_depth: 5}\n", 3),
        (", recursion: {max_depth: 3}", "", 0),
        (", recursion: {max_depth: 3}", "recursion: {max_depth: 2}\n", 3),
    ],
    ids=["inherited", "a child cannot widen", "a step can", "a child can narrow again"],
)
def test_truth_33_a_steps_own_depth_can_raise_its_recipes(
    tmp_path: Path, step: str, child: str, code: int
) -> None:
    stage = Stage(tmp_path)
    put_chain(stage, 3, step, child)

    stage.run("run", "r1.yaml", "--backend", "rehearsal").assert_exit(code)
