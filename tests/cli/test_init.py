"""`init`: a first project that validates and runs at once, and never a file overwritten."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import ROOT, start
from tests.recipes.terminal import at_terminal


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    return Project(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("dialect", ["machine", "recipe", "workflow"])
def test_what_it_writes_validates_and_runs_at_once(empty: Project, dialect: str) -> None:
    made = empty.run("init", "--dialect", dialect, "--json")
    assert (made.exit_code, made.stderr) == (0, "")
    assert f".orchestrate/recipes/my-{dialect}.yaml" in made.json()["written"]
    assert made.json()["left"] == []
    checked = empty.run("validate", "--strict", f"my-{dialect}")
    assert checked.exit_code == 0, checked.stdout
    for command in made.json()["next"]:
        ran = empty.run(*command.split()[1:])
        assert ran.exit_code == 0, ran.stderr
    assert empty.run("runs", "--json").json()["runs"][0]["status"] == "completed"


def test_the_second_time_nothing_changes(empty: Project) -> None:
    assert empty.run("init").exit_code == 0
    before = contents(empty.folder)
    again = empty.run("init", "--json")
    assert again.exit_code == 0
    assert again.json()["written"] == []
    assert {left["path"] for left in again.json()["left"]} == set(before)
    assert contents(empty.folder) == before


def test_nothing_of_the_users_is_overwritten(empty: Project) -> None:
    empty.write(".orchestrate/config.yaml", "backend: codex\n")
    empty.write(".orchestrate/recipes/my-machine.yaml", "mine\n")
    empty.write(".orchestrate/schemas/machine.schema.json", "{}")
    (empty.folder / ".orchestrate/agents").mkdir()
    (empty.folder / ".orchestrate/agents/writer.md").symlink_to("/nowhere/at/all")
    empty.write(".gitignore", "*.log\r\nno end of line")
    made = empty.run("init", "--backend", "gemini")
    assert made.exit_code == 0
    assert (empty.folder / ".orchestrate/config.yaml").read_text() == "backend: codex\n"
    assert (empty.folder / ".orchestrate/recipes/my-machine.yaml").read_text() == "mine\n"
    assert (empty.folder / ".orchestrate/agents/writer.md").is_symlink()
    assert not os.path.exists("/nowhere")
    ignored = (empty.folder / ".gitignore").read_bytes()
    assert ignored.startswith(b"*.log\r\nno end of line\r\n#")
    assert ignored.endswith(b"\r\n.orchestrate/runs/\r\n")
    assert "left   .orchestrate/config.yaml" in made.stdout
    assert "orchestrate schema machine > .orchestrate/schemas/machine.schema.json" in made.stdout


@pytest.mark.parametrize("line", [".orchestrate/runs", "/.orchestrate/", ".orchestrate"])
def test_a_gitignore_that_does_it_already_stays(empty: Project, line: str) -> None:
    empty.write(".gitignore", line + "\n")
    made = empty.run("init")
    assert "left   .gitignore" in made.stdout
    assert (empty.folder / ".gitignore").read_text() == line + "\n"


def test_git_leaves_runs_out_and_takes_the_rest(empty: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=empty.folder, check=True)
    assert empty.run("init").exit_code == 0
    assert empty.run("run", "my-machine", "--backend", "rehearsal").exit_code == 0
    listed = start(empty, ["git", "ls-files", "--others", "--exclude-standard"]).stdout.split()
    assert ".orchestrate/recipes/my-machine.yaml" in listed
    assert not [name for name in listed if name.startswith(".orchestrate/runs/")]


def test_schema_lines_lead_to_the_schemas(empty: Project) -> None:
    assert empty.run("init", "--dialect", "recipe").exit_code == 0
    for name in (".orchestrate/config.yaml", ".orchestrate/recipes/my-recipe.yaml"):
        file = empty.folder / name
        first = file.read_text().partition("\n")[0]
        target = file.parent / first.partition("$schema=")[2]
        shipped = ROOT / "schemas" / target.name
        assert target.read_bytes() == shipped.read_bytes()


def test_the_agent_goes_into_the_configuration(empty: Project) -> None:
    assert empty.run("init", "--backend", "copilot").exit_code == 0
    config = (empty.folder / ".orchestrate/config.yaml").read_text()
    active = [line for line in config.splitlines() if line and not line.startswith("#")]
    assert active == ["backend: github-copilot"]
    wrong = empty.run("init", "--backend", "codx")
    assert wrong.exit_code == 5
    assert "did you mean 'codex'?" in wrong.stderr


def test_a_link_out_of_the_project_is_not_followed(empty: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    project = Project(tmp_path / "project")
    outside.mkdir()
    project.folder.mkdir()
    (project.folder / ".orchestrate").symlink_to(outside)
    made = project.run("init")
    assert made.exit_code == 5
    assert "outside" in made.stderr
    assert list(outside.iterdir()) == []


def test_a_file_in_the_way_is_named(empty: Project) -> None:
    empty.write(".orchestrate/recipes", "a file\n")
    made = empty.run("init")
    assert made.exit_code == 5
    assert "cannot write .orchestrate/recipes/my-machine.yaml" in made.stderr
    assert "wrote  .orchestrate/config.yaml" in made.stderr
    assert (empty.folder / ".orchestrate/recipes").read_text() == "a file\n"


def test_on_a_terminal_it_asks(empty: Project) -> None:
    surroundings = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(empty.folder)}
    with at_terminal(empty.folder, surroundings, "init") as terminal:
        terminal.read_until("Which agent do you use?")
        terminal.type("gemni\n")
        terminal.read_until("did you mean gemini?")
        terminal.read_until("Which agent do you use?")
        terminal.type("gemini\n")
        terminal.read_until("What may agents do without asking?")
        terminal.type("edit\n")
        terminal.read_until("Which kind of recipe do you want?")
        terminal.type("\n")
        assert terminal.wait() == 0
    config = (empty.folder / ".orchestrate/config.yaml").read_text()
    assert "\nbackend: gemini\n" in config
    assert "\npermissions: edit\n" in config
    assert (empty.folder / ".orchestrate/recipes/my-machine.yaml").is_file()


@pytest.mark.parametrize("typed", ["\x03", "\x04"])
def test_leaving_the_questions_writes_nothing(empty: Project, typed: str) -> None:
    surroundings = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    with at_terminal(empty.folder, surroundings, "init") as terminal:
        terminal.read_until("Which agent do you use?")
        terminal.read_until(": ")
        terminal.type(typed)
        assert terminal.wait() == 130
    assert list(empty.folder.iterdir()) == []


def test_with_yes_it_asks_nothing_on_a_terminal(empty: Project) -> None:
    surroundings = {"PYTHONPATH": str(ROOT)}
    with at_terminal(empty.folder, surroundings, "init", "--yes") as terminal:
        assert terminal.wait() == 0
    assert (empty.folder / ".orchestrate/config.yaml").is_file()
