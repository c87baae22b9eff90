"""Finds and compiles the recipe that a command names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.config.model import FILE
from orchestrate.catalogue import SUFFIXES, find_recipe, recipe_files
from orchestrate.diagnostics import closest, closest_file
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.record import replace
from orchestrate.regex import regex
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrate.compile import Compilation
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


# How a recipe's warning names the variable that nothing sets.
_UNSET = regex(r"\Anothing in this recipe sets \{\{\s*(\w+)")


def compile_definition(name: str, workspace: Workspace) -> Compilation:
    """Compile a file, or the recipe of that id when there is no such file."""
    from orchestrate.compile import compile_file

    if not name:
        raise UsageError("the name of a file or recipe is empty")
    path = Path(name)
    if os.path.lexists(path):
        return _explain_configuration(compile_file(path, workspace), path, workspace)
    found = find_recipe(name, workspace)
    if found is not None:
        return compile_file(found, workspace)
    return _explain_missing(compile_file(path, workspace), path, workspace)


def _explain_configuration(
    compilation: Compilation, path: Path, workspace: Workspace
) -> Compilation:
    """The settings are not a recipe; another command checks them."""
    if compilation.dialect is not None or path.name != "config.yaml":
        return compilation
    if os.path.realpath(path) != os.path.realpath(workspace.root / FILE):
        return compilation
    hint = "this is the configuration; `orchestrate config show` checks it"
    explained = tuple(
        replace(finding, hint=hint) if finding.code in ("E005", "E030") else finding
        for finding in compilation.diagnostics
    )
    return replace(compilation, diagnostics=explained)


def _explain_missing(compilation: Compilation, path: Path, workspace: Workspace) -> Compilation:
    """A file that does not exist may be a slip of a recipe's id or of a neighbour's name."""
    if path.suffix.lower() in SUFFIXES:
        try:
            names = sorted(os.listdir(path.parent))
        except OSError:
            names = []
        near = closest_file(path.name, [n for n in names if n.lower().endswith(SUFFIXES)])
        near = str(path.parent / near) if near else ""
        hint = ""
    else:
        near = closest(str(path), (recipe_id for recipe_id, _, _ in recipe_files(workspace)))
        hint = "it is not the id of a recipe either; `orchestrate list` shows those"
    hint = _elsewhere(path, workspace) or hint
    explained = tuple(
        replace(finding, suggestion=near, hint=hint) if finding.code == "E001" else finding
        for finding in compilation.diagnostics
    )
    return replace(compilation, diagnostics=explained)


def _elsewhere(path: Path, workspace: Workspace) -> str:
    """Where the name would be found if the user stood elsewhere, as a hint; '' if nowhere."""
    if os.path.isfile(workspace.root / path):
        there = os.path.relpath(workspace.root / path)
        return f"FILE is relative to the current folder, not to the workspace: write {there}"
    for folder in workspace.root.parents:
        if find_recipe(str(path), open_workspace(folder)) is not None:
            there = os.path.relpath(folder)
            return f"ids are looked up in the workspace: start there, or add --working-dir {there}"
    return ""


def compiled(name: str, workspace: Workspace) -> tuple[Compilation, Program]:
    """The program; all its errors as one exception. Its warnings are in the compilation."""
    from orchestrate.compile import require_program

    compilation = compile_definition(name, workspace)
    return compilation, require_program(compilation)


def without_given(compilation: Compilation, given: Iterable[str]) -> tuple[Diagnostic, ...]:
    """The findings; that a variable has no value is none if it was `given` one."""
    names = set(given)
    return tuple(f for f in compilation.diagnostics if not _is_given(f, names))


def given_names(program: Program) -> list[str]:
    """The context variables that a program has with all its flags applied."""
    return [name for name, _ in main_plan(program).context.items]


def _is_given(finding: Diagnostic, given: Iterable[str]) -> bool:
    if finding.code != "W103":
        return False
    missing = _UNSET.search(finding.message)
    name = missing[1] if missing is not None else ""
    return name in given or any(f"--context {name}=" in finding.hint for name in given)
