"""Every shipped recipe compiles without a finding, to exactly the plan that its golden shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrate.compile import compile_file, require_program
from orchestrate.show.plan_text import render_text
from orchestrate.workspace import open_workspace

REPOSITORY = Path(__file__).resolve().parent.parent.parent
GOLDENS = Path(__file__).parent / "plans"
RECIPES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "workflows").rglob("*.yaml")
    if "shared" not in path.parts
)
CASES = sorted(GOLDENS.glob("*.yaml"))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that has taken the catalogue and the example configuration over."""
    for folder in ("workflows", "prompts", "schemas"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    shutil.copytree(REPOSITORY / ".orchestrate.example", tmp_path / ".orchestrate")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 20


@pytest.mark.parametrize("recipe", RECIPES)
def test_plan(recipe: str, workspace: Path, update_goldens: bool) -> None:
    compilation = compile_file(Path(recipe), open_workspace())
    assert compilation.diagnostics == ()
    text = render_text(require_program(compilation))
    golden = GOLDENS / f"{recipe.removeprefix('workflows/').replace('/', '.')[:-5]}.plan"
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_plan_of_a_case(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update_goldens: bool
) -> None:
    """`<name>.yaml` in `plans/` is a definition of its own; missing agents are no fault."""
    for file in CASES:
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    compilation = compile_file(Path(case.name), open_workspace())
    assert {finding.code for finding in compilation.diagnostics} <= {"W104"}
    text = render_text(require_program(compilation))
    golden = case.with_suffix(".plan")
    if update_goldens:
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_names_its_schema_for_editors(recipe: str) -> None:
    path = REPOSITORY / recipe
    first = path.read_text("utf-8").split("\n", 1)[0]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    schema = (path.parent / first.removeprefix(prefix)).resolve()
    compilation = compile_file(path, open_workspace(REPOSITORY))
    assert schema == REPOSITORY / "schemas" / f"{compilation.dialect}.schema.json"
