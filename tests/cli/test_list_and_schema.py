"""`orchestrate list` and `orchestrate schema`."""

from __future__ import annotations

import json

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import ROOT


def test_list_groups_workspace_and_catalogue(project: Project) -> None:
    result = project.run("list")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "Workspace"
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in lines if line.startswith("  ")}
    assert rows["look"] == ["recipe", "Look at a file twice"]
    assert rows["tidy"] == ["machine", "Clean the code and check it"]
    assert rows["words"] == ["workflow", "Counts words."]
    assert rows["rebase"][0] == "machine"
    assert "Catalogue" in lines
    assert len({line.index(f" {line.split()[1]}") for line in lines if line.startswith("  ")}) == 1


def test_list_json_tells_everything(project: Project) -> None:
    recipes = {r["id"]: r for r in project.run("list", "--json").json()["recipes"]}
    assert recipes["words"] == {
        "id": "words",
        "path": "workflows/words.yaml",
        "origin": "workspace",
        "dialect": "workflow",
        "name": "words",
        "title": "words",
        "description": "Counts words. Then it stops.",
        "inputs": [],
        "readable": True,
        "error": "",
    }
    assert recipes["tidy"]["title"] == "Tidy Up"
    assert recipes["review-and-commit"]["origin"] == "catalogue"


def test_nearer_recipe_hides_the_catalogues(project: Project) -> None:
    project.write("workflows/rebase.yaml", (project.folder / "workflows/tidy.yaml").read_text())
    recipes = project.run("list", "--json").json()["recipes"]
    assert [r["origin"] for r in recipes if r["id"] == "rebase"] == ["workspace"]


def test_fragments_are_skipped_and_broken_files_listed(project: Project) -> None:
    project.write("workflows/part.yaml", "clean:\n  prompt: x\n")
    project.write("workflows/list.yaml", "- 1\n")
    project.write("workflows/cut.yaml", "steps: [\n")
    project.write("workflows/shapeless.yaml", "steps: 7\n")
    project.write("workflows/binary.yaml", "a\0b")
    result = project.run("list", "--json")
    assert result.exit_code == 0
    recipes = {r["id"]: r for r in result.json()["recipes"] if r["origin"] == "workspace"}
    assert set(recipes) == {"look", "tidy", "words", "cut", "shapeless", "binary"}
    assert not any(recipes[name]["readable"] for name in ("cut", "shapeless", "binary"))
    assert recipes["binary"]["error"] == "is a binary file (it has a NUL byte)"
    assert "invalid" in project.run("list").stdout


@pytest.mark.parametrize(
    "name", ["machine", "recipe", "workflow", "state", "status", "qa_verdict", "config", "agent"]
)
def test_schema_is_printed_verbatim(project: Project, name: str) -> None:
    result = project.spawn("schema", name, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.exit_code == 0
    assert result.stdout == (ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8")
    json.loads(result.stdout)


def test_schema_without_a_name_lists_all_that_are_shipped(project: Project) -> None:
    shipped = {path.name.split(".")[0] for path in (ROOT / "schemas").glob("*.schema.json")}
    listed = {line.split()[0] for line in project.run("schema").stdout.splitlines()}
    assert listed == shipped
    assert project.run("schema", "--list").stdout == project.run("schema").stdout
    names = {entry["name"] for entry in project.run("schema", "--json").json()["schemas"]}
    assert names == shipped


def test_unknown_schema_is_a_usage_error(project: Project) -> None:
    result = project.run("schema", "workflw")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "did you mean 'workflow'?" in result.stderr
