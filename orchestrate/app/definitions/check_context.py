"""Checks files as `validate` with flags does: all of a workspace, with given values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orchestrate.app.definitions.check import Note, check_files
from orchestrate.app.definitions.find import given_names, without_given
from orchestrate.app.definitions.recipes import own_recipes
from orchestrate.app.definitions.undefined import find_undefined
from orchestrate.app.given.context import with_given_context
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.diagnostics import CheckedFile
    from orchestrate.workspace import Workspace


def check_given(
    names: Sequence[str], workspace: Workspace, note: Note, settings: RunSettings, **more: Any
) -> list[CheckedFile]:
    """As `check_files`, each file with the values that a run would be given."""
    if not settings.given():
        return check_files(names, workspace, note, **more)
    return check_files(
        names,
        workspace,
        note,
        change=lambda compilation: _with_values(compilation, settings, workspace),
        **more,
    )


def files_of(workspace: Workspace) -> tuple[str, ...]:
    """The recipes of a workspace, to be checked with all that they include."""
    return tuple(os.path.relpath(path) for path in own_recipes(workspace))


def _with_values(
    compilation: Compilation, settings: RunSettings, workspace: Workspace
) -> Compilation:
    """As `run` would see it with these values: what has none then is an error."""
    program = compilation.program
    if program is None:
        return compilation
    settings.check(program)
    program = with_given_context(program, settings, workspace)
    found = find_undefined(compilation, program)
    places = {finding.span for finding in found}
    left = without_given(compilation, given_names(program))
    findings = (*(one for one in left if one.span not in places), *found)
    return replace(compilation, program=None if found else program, diagnostics=findings)
