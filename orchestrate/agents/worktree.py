"""Variables that an agent needs because it works in a git worktree (A §14.2, §14.3)."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.git_head import git_above

_DATABASE = Path(".beads-local") / "local.db"
_LONGEST_GIT_FILE = 4096


def worktree_environment(workspace: Path) -> dict[str, str]:
    """`BEADS_DB`, when the workspace lies in a worktree that has a task database of its own.

    Git is not asked: in a worktree, `.git` is a file that says where the repository keeps it.
    """
    folder = Path(os.path.abspath(workspace))
    git = git_above(folder)
    if git is None or not _is_worktree(git):
        return {}
    for place in dict.fromkeys((folder, git.parent)):
        if (place / _DATABASE).is_file():
            return {"BEADS_DB": str(place / _DATABASE)}
    return {}


def _is_worktree(git: Path) -> bool:
    """A repository's own `.git` is a folder; a submodule's file points to `/modules/`."""
    try:
        with git.open("rb") as file:
            line = file.read(_LONGEST_GIT_FILE).decode("utf-8", "replace")
    except OSError:
        return False
    return line.startswith("gitdir:") and "/worktrees/" in line.replace("\\", "/")
