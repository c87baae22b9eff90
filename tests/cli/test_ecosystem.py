"""What other tools take from this repository: the pre-commit hook, the GitHub action, the guide."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from orchestrate.testing import Project, Result
from tests.cli.conftest import MACHINE, ROOT, start


def yaml_of(name: str) -> Any:
    return YAML(typ="safe").load((ROOT / name).read_text("utf-8"))


@pytest.fixture
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PATH with the command in it."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "orchestrate"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestrate "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def sound(tmp_path: Path) -> Project:
    """A workspace whose recipe draws in a part."""
    made = Project(tmp_path)
    part = MACHINE.partition("  check:\n")[2]
    made.write("workflows/shared/check.yaml", re.sub("^    ", "", part, flags=re.MULTILINE))
    whole = MACHINE.partition("  check:\n")[0] + "  check:\n    $include: shared/check.yaml\n"
    made.write("workflows/tidy.yaml", whole)
    return made


def shell(project: Project, commands: Path, text: str, **environment: str) -> Result:
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    path = f"{commands}:{os.environ['PATH']}"
    return start(project, command, env={"PATH": path, **environment})


def test_all_checks_recipes_and_leaves_out_their_parts(sound: Project) -> None:
    good = sound.run("validate", "--all", "--json")
    assert good.exit_code == 0, good.stdout
    assert [file["file"] for file in good.json()["files"]] == ["workflows/tidy.yaml"]
    part = (sound.folder / "workflows/shared/check.yaml").read_text()
    sound.write("workflows/shared/check.yaml", part.replace("model:", "modell:"))
    bad = sound.run("validate", "--all")
    assert bad.exit_code == 1
    assert "workflows/shared/check.yaml" in bad.stdout


def test_all_where_there_is_nothing(tmp_path: Path) -> None:
    empty = Project(tmp_path)
    assert empty.run("validate", "--all").exit_code == 0
    assert empty.run("validate", "--all", "--json").json()["files"] == []
    assert empty.run("validate").exit_code == 2


def test_the_hook_finds_a_mistake_in_a_part(sound: Project, commands: Path) -> None:
    hook = next(
        hook for hook in yaml_of(".pre-commit-hooks.yaml") if not hook.get("pass_filenames", 1)
    )
    assert {"id", "name", "entry", "language"} <= set(hook)
    touched = "workflows/shared/check.yaml"
    assert re.search(hook["files"], touched)
    assert re.search(hook["files"], ".orchestrate/recipes/x.yaml")
    assert not re.search(hook["files"], "src/workflows.py")
    assert shell(sound, commands, hook["entry"] + " --strict").exit_code == 0
    sound.write(touched, "prompt: Check it.\noutcomes: [good]\n")
    assert shell(sound, commands, hook["entry"]).exit_code == 1


def test_the_hook_for_files_takes_their_names(project: Project, commands: Path) -> None:
    hook = next(hook for hook in yaml_of(".pre-commit-hooks.yaml") if "types_or" in hook)
    assert shell(project, commands, hook["entry"] + " workflows/tidy.yaml").exit_code == 0
    assert shell(project, commands, hook["entry"] + " broken/tidy.yaml").exit_code == 1


def action_script() -> tuple[str, dict[str, str]]:
    """The step that validates, and its environment with the defaults of the inputs."""
    action = yaml_of("action.yml")
    step = action["runs"]["steps"][-1]
    inputs = {
        f"${{{{ inputs.{name} }}}}": value["default"] for name, value in action["inputs"].items()
    }
    assert "${{" not in step["run"], "an input in the script itself would be code"
    return step["run"], {name: inputs[value] for name, value in step["env"].items()}


def test_the_action_marks_mistakes(project: Project, commands: Path) -> None:
    script, environment = action_script()
    assert shell(project, commands, script, **(environment | {"STRICT": "false"})).exit_code == 0
    project.write("workflows/broken.yaml", (project.folder / "broken/tidy.yaml").read_text())
    found = shell(project, commands, script, **environment)
    assert found.exit_code in (1, 2)
    assert "::error file=workflows/broken.yaml,line=10" in found.stdout


def test_the_action_takes_names_as_names(project: Project, commands: Path) -> None:
    script, environment = action_script()
    odd = "a b; touch pwned.yaml"
    project.write(odd, MACHINE)
    files = {"FILES": f"\nworkflows/tidy.yaml\n{odd}\n--help\n"}
    found = shell(project, commands, script, **(environment | files))
    assert "file=--help" in found.stdout
    assert "a b" not in found.stdout
    assert not (project.folder / "pwned.yaml").exists()


def test_the_action_in_a_folder_names_files_from_the_top(project: Project, commands: Path) -> None:
    script, environment = action_script()
    project.write("inner/workflows/tidy.yaml", (project.folder / "broken/tidy.yaml").read_text())
    found = shell(project, commands, script, **(environment | {"WORKSPACE": "inner"}))
    assert "::error file=inner/workflows/tidy.yaml,line=10" in found.stdout


def test_the_guide_and_the_skill_are_one_text(project: Project) -> None:
    skill = (ROOT / "skills/orchestrate-recipes/SKILL.md").read_text("utf-8")
    assert project.run("guide", "--skill").stdout == skill
    page = project.run("guide").stdout
    assert page.startswith("# ")
    assert skill.endswith(page)
    document = project.run("guide", "--json").json()
    assert document["name"] == "orchestrate-recipes"
    assert document["text"] == page
    # What a skill may have: agents refuse longer ones.
    assert len(document["description"]) <= 1024
    assert page.count("\n") < 500
