"""For commands that only look: they go on with a note when the configuration cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.config.load import config_files, load_config, state_dir_in
from orchestrate.app.config.model import Config
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace

Tell = Callable[[str], None]
_NEEDED = "state_dir"


def config_for_looking(
    workspace: Workspace, tell_fault: Tell, state_dir: str | None = None
) -> Config:
    """The configuration, or of a faulty one only where the runs are, which is all that is needed.

    Where just that cannot be told, and no flag says it, the fault is raised after all.
    """
    try:
        return load_config(workspace)
    except OrchestrateError as error:
        values = {}
        if state_dir is None:
            found = _state_dir_in(workspace, error)
            values = {} if found is None else {_NEEDED: found}
        why = visible(_in_short(error))
        tell_fault(f"orchestrate: the configuration is ignored: {why}\n")
        return Config(values)


def config_told(workspace: Workspace, state_dir: str | None, tell_fault: Tell | None) -> Config:
    """For a command that only looks, which gives `tell_fault`; any other refuses a fault."""
    if tell_fault is None:
        return load_config(workspace)
    return config_for_looking(workspace, tell_fault, state_dir)


def _state_dir_in(workspace: Workspace, fault: OrchestrateError) -> str | None:
    given = os.environ.get("ORCHESTRATE_STATE_DIR")
    if given:
        return given
    for path in reversed(config_files(workspace, os.environ)):
        value = state_dir_in(path, fault) if os.path.lexists(path) else None
        if value is not None:
            return value
    return None


def _in_short(error: OrchestrateError) -> str:
    """Why, in one line; of an invalid file the first error with its place."""
    if isinstance(error, DefinitionError):
        first = next((d for d in error.diagnostics if d.severity == "error"), None)
        if first is not None:
            span = first.span
            return f"{span.file}:{span.line}: {first.message}"
    return error.message
