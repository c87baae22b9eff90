"""The workspace that a command works in."""

from __future__ import annotations

import os

from orchestrate.errors import UsageError
from orchestrate.workspace import Workspace, find_workspace, open_workspace


def workspace_of(working_dir: str | None) -> Workspace:
    """`--working-dir`, else the nearest folder upwards with `.orchestrate/`, else this one."""
    if working_dir is not None:
        return workspace_here(working_dir)
    _require_here()
    return find_workspace()


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
