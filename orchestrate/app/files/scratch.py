"""Where a step is tried (`run-step --run`): in a worktree, which goes if nothing has changed.

It has the files as they were before the step in the run, with what the user has changed since:
an edited prompt may lie in a file that the step reads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.files.worktree_files import files_before
from orchestrate.app.files.worktrees import OwnPlace, in_worktree, plan_worktree, remove_unbegun
from orchestrate.app.resuming.edit import results_named
from orchestrate.checkpoints.inheriting import borrow, inherit
from orchestrate.checkpoints.model import CHECKPOINTS, Checkpoint, checkpoint_from_json
from orchestrate.checkpoints.store import Store, open_store
from orchestrate.errors import ConfigError, UsageError
from orchestrate.plan.nodes import Ask, Run, all_nodes
from orchestrate.record import replace
from orchestrate.state.lineage import earlier_of
from orchestrate.state.recorded import read_events
from orchestrate.state.worktree import ready_file, worktree_of
from orchestrate.view.file_history import FileHistory
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.app.starting.prepare import Prepared
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.plan.nodes import Program
    from orchestrate.state.runs import Run as StoredRun
    from orchestrate.state.store import Store as Journal

_IN_PLACE = OwnPlace(None)


@contextmanager
def scratch_place(
    prepared: Prepared, origin: StoredRun, step: str, reporter: Reporter
) -> Iterator[OwnPlace]:
    """The worktree in which a step is tried; where it can have none, that is said."""
    given = (prepared.settings.run_step or {}).get("given", ())
    if not _may_change_files(prepared.program, given):
        yield _IN_PLACE
        return
    workspace = prepared.workspace
    working = in_worktree(workspace, run_view(origin).state)
    settings = replace(prepared.settings, worktree="", with_changes=True)
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        borrowed = Path(folder, CHECKPOINTS)
        try:
            files = _files(origin, step, working.root, borrowed)
            planned = plan_worktree(workspace, settings, prepared.config, working, files)
        except (UsageError, ConfigError) as error:
            reporter.note(f"  works in {workspace.root}, with your files: {error.message}\n")
            yield _IN_PLACE
            return

        def furnish(root: Path) -> None:
            for store in (origin.root / CHECKPOINTS, borrowed) if files is not None else ():
                inherit(store, root / CHECKPOINTS)

        yield OwnPlace(planned, furnish, lambda store: _remove_unchanged(store, reporter))


def _may_change_files(program: Program, given: Collection[str]) -> bool:
    """Is there an agent or a command in it, besides the steps whose results it is given?"""
    return any(
        isinstance(node.op, Ask | Run) and node.name not in given for node in all_nodes(program)
    )


def _files(origin: StoredRun, step: str, root: Path, borrowed: Path) -> Checkpoint | None:
    """Those from before the step, with the user's edits; None where no checkpoint has them."""
    earlier, entries = earlier_of(origin), []
    with suppress(UsageError):
        entries = results_named(earlier, step, "run-step")
    begun = files_before(origin, entries, earlier)
    store = open_store(origin.root)
    if begun is None or store is None or not store.exists:
        return None
    history = FileHistory(recorded.event for recorded in read_events(origin.events))
    if not history.checkpoints:
        return None
    last = checkpoint_from_json(history.checkpoints[-1].checkpoint)
    borrow(store.folder, borrowed)
    own = Store(borrowed, store.program)
    own.begin_with(last.tree, root)
    now = own.capture(root)
    edits = own.changes(last.tree, now.tree)
    return replace(begun.checkpoint, tree=own.overlay(begun.checkpoint.tree, edits))


def _remove_unchanged(store: Journal, reporter: Reporter) -> None:
    """Remove the worktree of a step that has changed no file."""
    tree = worktree_of(store.state)
    if tree is None or store.state.status not in ("completed", "failed"):
        return
    history = FileHistory(recorded.event for recorded in read_events(store.run.events))
    seen = {str(taken.checkpoint["tree"]) for taken in history.checkpoints}
    heads = {str(taken.checkpoint.get("head", "")) for taken in history.checkpoints}
    if len(history.checkpoints) > 1 and len(seen) == len(heads) == 1:
        # A resume makes the worktree again.
        ready_file(store.run).unlink(missing_ok=True)
        remove_unbegun(tree)
        reporter.note("  the step changed no file; the worktree that it was tried in is removed\n")
