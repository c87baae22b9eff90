"""What `validate --all` and `--context` need: the recipes of a workspace, and given values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrate.app.context import with_given_context
from orchestrate.app.definition import given_names, without_given
from orchestrate.app.recipes import own_recipes
from orchestrate.app.undefined import find_undefined
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.workspace import Workspace


def files_of(workspace: Workspace) -> tuple[str, ...]:
    """The recipes of a workspace, to be checked with all that they include."""
    return tuple(os.path.relpath(path) for path in own_recipes(workspace))


def with_values(
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
