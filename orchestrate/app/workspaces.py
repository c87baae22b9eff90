"""The workspace that a command works in."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.app.config.load import config_files, load_config
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.record import replace
from orchestrate.workspace import Workspace, find_workspace, open_workspace


def workspace_of(working_dir: str | None) -> Workspace:
    """`--working-dir`, else the nearest folder upwards with `.orchestrate/`, else this one."""
    if working_dir is not None:
        return with_aliases(workspace_here(working_dir))
    _require_here()
    return with_aliases(find_workspace())


def with_aliases(workspace: Workspace) -> Workspace:
    """The workspace with the `agent_aliases` of the configuration; most have none.

    A faulty configuration is told by those that need the rest of it.
    """
    if not any(_mentions_aliases(path) for path in config_files(workspace, os.environ)):
        return workspace
    try:
        found = load_config(workspace).values.get("agent_aliases") or {}
    except OrchestrateError:
        return workspace
    return replace(workspace, aliases=tuple(found.items()))


def _mentions_aliases(path: Path) -> bool:
    try:
        return b"agent_aliases" in path.read_bytes()
    except OSError:
        return False


def workspace_here(working_dir: str | None) -> Workspace:
    """`--working-dir`, else the current folder, whatever stands above it."""
    _require_here()
    if working_dir is not None and not os.path.isdir(working_dir):
        raise UsageError(f"--working-dir: '{working_dir}' is not a folder")
    return open_workspace(working_dir)


def _require_here() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current folder does not exist any more") from None
