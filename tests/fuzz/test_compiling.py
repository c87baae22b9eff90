"""Damaged recipes: the compiler only ever answers with findings, or with a sound program."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.codes import CODES
from orchestrate.compile import Compilation, compile_file
from orchestrate.plan.check import problems
from orchestrate.plan.to_json import program_json
from orchestrate.show.draw.graph import render_dot, render_mermaid
from orchestrate.show.findings import draw as draw_findings
from orchestrate.show.formats import diagnostic_json
from orchestrate.show.plan_text import render_text
from orchestrate.workspace import open_workspace
from tests.fuzz.strategies import RECIPES, REPOSITORY, damaged, texts


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name in ("workflows", "prompts", "schemas"):
        shutil.copytree(REPOSITORY / name, folder / name)
    shutil.copytree(REPOSITORY / ".orchestrate.example", folder / ".orchestrate")
    return folder


@cache
def composed(project: str, recipe: str) -> Any:
    """A shipped recipe as plain data, with its includes already in it."""
    compilation = compile_file(Path(project, recipe), open_workspace(project))
    assert compilation.program is not None
    return json.loads(json.dumps(compilation.documents[compilation.program.main]))


def assert_sound(compilation: Compilation) -> None:
    """What must hold for every compilation, whatever was compiled."""
    errors = [d for d in compilation.diagnostics if d.severity == "error"]
    assert (compilation.program is None) == bool(errors)
    for finding in compilation.diagnostics:
        assert finding.code in CODES
        assert finding.message
        assert finding.span.line >= 1
        assert finding.span.column >= 1
        json.dumps(diagnostic_json(finding))
    draw_findings(compilation.diagnostics, compilation.dropped)
    if compilation.program is not None:
        assert list(problems(compilation.program)) == []
        for render in (render_text, render_dot, render_mermaid):
            assert render(compilation.program)
        json.dumps(program_json(compilation.program))


@pytest.mark.parametrize("folder", ["workflows", "workflows/examples"])
@given(draw=st.data())
def test_damaged_recipe(project: Path, folder: str, draw: st.DataObject) -> None:
    recipes = [name for name in RECIPES if name.rpartition("/")[0] == folder]
    recipe = draw.draw(st.sampled_from(recipes))
    document = draw.draw(damaged(composed(str(project), recipe)))
    path = project / Path(recipe).with_name("damaged.json")
    path.write_text(json.dumps(document), "utf-8")
    assert_sound(compile_file(path, open_workspace(project)))


@given(draw=st.data())
def test_damaged_text(project: Path, draw: st.DataObject) -> None:
    recipe = draw.draw(st.sampled_from(RECIPES))
    text = (project / recipe).read_text("utf-8")
    begin = draw.draw(st.integers(0, len(text)))
    end = draw.draw(st.integers(begin, min(len(text), begin + 60)))
    path = project / Path(recipe).with_name("damaged.yaml")
    broken = text[:begin] + draw.draw(texts) + text[end:]
    path.write_bytes(broken.encode("utf-8", "surrogatepass"))
    assert_sound(compile_file(path, open_workspace(project)))
