"""§7: recipes from elsewhere: stubs for the agents that they name, and aliases for their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project

RECIPE = """
name: foreign
description: Names agents of another tool
version: "1.0.0"
steps:
  - {id: design, agent: "foundation:zen-architect", prompt: Design., output: plan}
  - {id: build, agent: builder, prompt: "Build {{plan}}."}
  - {id: again, agent: builder, prompt: Again.}
  - {id: call, type: recipe, recipe: inner.yaml}
  - {id: own, prompt: The run's own.}
"""
INNER = """
name: inner
description: Is called
version: "1.0.0"
steps:
  - {id: test, agent: tester, prompt: Test.}
"""
CONFIG = "agent_aliases:\n  foundation:zen-architect: architect\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, {"r.yaml": RECIPE, "inner.yaml": INNER})


def test_init_writes_a_stub_for_each_agent(project: Project) -> None:
    project.write(".claude/agents/builder.md", "---\nname: builder\n---\nYou build.\n")
    done = project.run("init", "--agents-of", "r.yaml", "--json").assert_success().json()
    assert done["written"] == [
        ".orchestrate/agents/foundation/zen-architect.md", ".orchestrate/agents/tester.md",
    ]  # fmt: skip
    assert [left["path"] for left in done["left"]] == [".claude/agents/builder.md"]
    assert "is there, for 'builder'" in done["left"][0]["why"]
    stub = (project.folder / ".orchestrate/agents/tester.md").read_text()
    assert stub.startswith("---\nname: tester\ndescription: Say what this agent is for")
    checked = project.run("validate", "r.yaml").assert_success()
    assert "the definition of agent 'tester' is not filled in" in checked.stdout
    for name in done["written"]:
        project.write(name, "---\nname: " + Path(name).stem + "\n---\nYou test.\n")
    project.run("validate", "--strict", "r.yaml").assert_success()
    again = project.run("init", "--agents-of", "r.yaml", "--json").assert_success().json()
    assert again["written"] == []
    assert not (project.folder / ".orchestrate/config.yaml").exists(), "nothing else is written"


def test_init_writes_a_stub_for_who_resolves_conflicts(project: Project) -> None:
    """In a workflow that is a provider."""
    resolve = "{pool: machines, resolve: {agent: NAME, prompt: 'Mend {{conflicts}}.'}}"
    shares = f"  - {{id: share, type: recipe, recipe: inner.yaml, spread: {resolve}}}\n"
    project.write("r.yaml", RECIPE + shares.replace("NAME", "merger"))
    loop = f"{{items: [a], parallel: true, spread: {resolve}, steps: [{{name: S, command: [ls]}}]}}"
    flow = f'version: "1.4"\nname: w\nsteps:\n  - {{name: Loop, for_each: {loop}}}\n'
    project.write("w.yaml", flow.replace("NAME", "claude"))
    done = project.run("init", "--agents-of", "r.yaml", "--json").assert_success().json()
    assert ".orchestrate/agents/merger.md" in done["written"]
    assert "names no agents" in project.run("init", "--agents-of", "w.yaml").stdout


def test_init_writes_stubs_though_the_recipe_has_mistakes(project: Project) -> None:
    project.write("r.yaml", RECIPE.replace("prompt: Again.", "promt: Again."))
    told = project.run("init", "--agents-of", "r.yaml").assert_success().stdout
    assert "wrote  .orchestrate/agents/builder.md" in told
    project.write("bad.yaml", "nothing: here\n")
    assert project.run("init", "--agents-of", "bad.yaml").exit_code == 2
    assert project.run("init", "--agents-of", "missing.yaml").exit_code == 2


@pytest.mark.parametrize("name", ["../../up", "a/b", ".hidden", "{{which}}"])
def test_a_name_that_is_none_makes_no_file(project: Project, name: str) -> None:
    project.write("r.yaml", RECIPE.replace("agent: builder", f'agent: "{name}"'))
    done = project.run("init", "--agents-of", "r.yaml", "--json").assert_success().json()
    assert len(done["written"]) == 2


def test_an_alias_leads_to_our_agent(project: Project) -> None:
    project.write(".orchestrate/agents/architect.md", "---\nname: architect\n---\nBe calm.\n")
    project.write(".orchestrate/config.yaml", CONFIG)
    for name in ("builder", "tester"):
        project.write(f".orchestrate/agents/{name}.md", f"---\nname: {name}\n---\nWork.\n")
    project.run("validate", "--strict", "r.yaml").assert_success()
    project.run("run", "r.yaml", "--backend", "rehearsal").assert_success()
    plan = (project.folder / ".orchestrate/runs/latest/plan.json").read_text()
    assert "Be calm." in plan, "what the agent is told is frozen with the run"
    (project.folder / ".orchestrate/agents/architect.md").unlink()
    told = project.run("validate", "r.yaml").stdout + project.run("validate", "r.yaml").stderr
    assert ".orchestrate/agents/architect.md" in told
    stubs = project.run("init", "--agents-of", "r.yaml", "--json").json()["written"]
    assert stubs == [".orchestrate/agents/architect.md"]


@pytest.mark.parametrize("wrong", ["agent_aliases: [a]\n", "agent_aliases: {a: 7}\n", "agent_aliases: {a: ''}\n"])  # fmt: skip  # noqa: E501
def test_wrong_aliases_are_refused_with_their_place(project: Project, wrong: str) -> None:
    project.write(".orchestrate/config.yaml", wrong)
    told = project.run("run", "r.yaml").assert_exit(5).stderr
    assert ".orchestrate/config.yaml:1:" in told
