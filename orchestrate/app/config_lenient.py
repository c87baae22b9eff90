"""For commands that only look: they go on with a note when the configuration cannot be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrate.app.config import Config, config_files, load_config
from orchestrate.errors import DefinitionError, OrchestrateError

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace

_NEEDED = "state_dir"


def config_for_looking(workspace: Workspace, state_dir: str | None = None) -> Config:
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
        from orchestrate.plan.visible import visible
        from orchestrate.show.output import note_once

        why = visible(_in_short(error))
        note_once(f"orchestrate: the configuration is left aside: {why}\n")
        return Config(values)


def _state_dir_in(workspace: Workspace, fault: OrchestrateError) -> str | None:
    given = os.environ.get("ORCHESTRATE_STATE_DIR")
    if given:
        return given
    from orchestrate.source.located import LocatedMap
    from orchestrate.source.reader import ReadFault, read_source
    from orchestrate.source.yaml import parse_yaml

    for path in reversed(config_files(workspace, os.environ)):
        if not os.path.lexists(path):
            continue
        try:
            text = read_source(path, str(path)).text
        except ReadFault:
            raise fault from None
        if _NEEDED not in text:
            continue
        faults: list[ReadFault] = []
        try:
            data = parse_yaml(text, 0, faults.append)
        except ReadFault:
            raise fault from None
        value = data.get(_NEEDED) if isinstance(data, LocatedMap) else None
        if faults or not isinstance(value, str | None) or value == "":
            raise fault
        if value is not None:
            return value
    return None


def _in_short(error: OrchestrateError) -> str:
    """Why, in one line; of an invalid file the first error with its place."""
    if isinstance(error, DefinitionError):
        first = next((d for d in error.diagnostics if d.severity == "error"), None)
        if first is not None:
            span = first.span
            return f"{error.message}: {span.file}:{span.line}: {first.message}"
    return error.message
