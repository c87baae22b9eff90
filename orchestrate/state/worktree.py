"""A git worktree that a run has for itself: where it is, and where its work begins.

The run's folder stays in the workspace that it was started in, and so do its definition and its
settings; only what its steps do happens in the worktree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchestrate.record import field_names, record
from orchestrate.state.model import RunState
from orchestrate.state.runs import Run

# In the run's folder, once the worktree is there with all that it was to have.
_READY = "worktree-ready"


@record
class Worktree:
    """`root` is where steps work: in `path`, the place that the workspace has in `repository`."""

    path: str
    root: str
    branch: str
    base: str
    repository: str
    with_changes: bool = False
    # The checkpoint that its files begin as; None: they are those of `base`.
    files: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in field_names(self)}


def worktree_of(state: RunState) -> Worktree | None:
    return None if state.worktree is None else Worktree(**state.worktree)


def working_folder(state: RunState) -> str:
    """Where the steps of a run work."""
    return state.workspace if state.worktree is None else str(state.worktree["root"])


def ready_file(run: Run) -> Path:
    return run.root / _READY


def worktree_document(state: RunState) -> dict[str, Any]:
    """For programs: where a run works that has a worktree; nothing of others."""
    if state.worktree is None:
        return {}
    shown = {name: state.worktree[name] for name in ("path", "branch", "base")}
    return {"worktree": shown}
