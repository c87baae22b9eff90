"""Prompts in files (`input_file`) that a person has edited since the run stopped.

Such a file is not part of the definition, yet it is what a finished step was asked. Steps of the
run may write it, too; what was written while the run went on is theirs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from orchestrate.app.files.worktrees import in_worktree
from orchestrate.engine.keys import FILES
from orchestrate.plan.data import FileText
from orchestrate.plan.nodes import Ask, all_nodes
from orchestrate.state.lineage import earlier_of

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

# So far a file's time may be behind the clock.
_TICK_S = 0.01


def edited_prompts(
    run: Run, program: Program, state: RunState, workspace: Workspace, *, at_any_time: bool
) -> dict[str, None]:
    """Their paths; none where it is not known when the run stopped, for it was killed.

    `at_any_time`: a person wants the files as they are, whenever that came about.
    """
    asking = {
        node.name
        for node in all_nodes(program)
        if isinstance(node.op, Ask) and isinstance(node.op.prompt, FileText)
    }
    found: dict[str, None] = {}
    if not asking or (state.status == "running" and not at_any_time):
        return found
    place = in_worktree(workspace, state)
    for entry in earlier_of(run).entries.values():
        files = entry.key.get("files", {})
        if entry.name not in asking or entry.finished is None or not files:
            continue
        name = next(iter(files))  # the prompt stands first (`engine/keys`)
        was = entry.finished.made.get(name, files[name])
        is_new = at_any_time or _time_of(place.root / name) > state.updated_at - _TICK_S
        if is_new and FILES.digest(place, name) != was:
            found[name] = None
    return found


def _time_of(path: Path) -> float:
    """When a file was written; one that is gone is not an edit."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
