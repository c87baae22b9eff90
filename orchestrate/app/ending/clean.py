"""Removes old runs, never one that is in use or can still be resumed."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.app.ending.end_calls import settle_calls
from orchestrate.app.ending.kept_programs import is_kept
from orchestrate.app.files.worktrees import has_unmerged, remove_merged
from orchestrate.app.reading.open_run import newest_document
from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.state.locks import LockHeldError, is_held, lock_run
from orchestrate.state.runs import ELSEWHERE, FETCHED, clean_runs, last_change, list_runs
from orchestrate.state.worktree import Worktree
from orchestrate.view.outcomes import UNFINISHED, Tidied
from orchestrate.view.run_summary import RunSummary, summary_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrate.state.runs import Run, Runs


@record
class Chosen:
    """Which runs the user means: unfinished ones only by their status."""

    newest: frozenset[str]
    statuses: tuple[str, ...]

    def spares(self, summary: RunSummary) -> bool:
        """Does it stay because it is not finished, and `--status` does not name such runs?"""
        return not self.statuses and summary.status in UNFINISHED

    def wants(self, summary: RunSummary) -> bool:
        return not self.statuses or not {summary.status, summary.shown_status}.isdisjoint(
            self.statuses
        )


def clean(folder: Runs, before: float, chosen: Chosen, release: Callable[[Run], Any]) -> Tidied:
    """Remove the chosen runs in which nothing has happened since.

    `release` gives back what a run on another machine holds there; if it cannot, the run stays.
    """
    sizes: dict[str, int] = {}
    kept: set[str] = set()
    left: dict[str, str] = {}
    unmerged: list[str] = []

    def is_used(run: Run) -> bool:
        """Asked about each run right before it would be removed."""
        summary = summary_of(run)
        if run.id in chosen.newest or not chosen.wants(summary):
            kept.add(run.id)
            return True
        if chosen.spares(summary) and not is_kept(run):
            kept.add(run.id)
            left[run.id] = summary.status
            return True
        if not _lets_worktree_go(run):
            kept.add(run.id)
            unmerged.append(run.id)
            return True
        if any(os.path.lexists(run.root / name) for name in (ELSEWHERE, FETCHED)):
            release(run)
        if summary.status in UNFINISHED:
            settle_calls(run, None)
        sizes[run.id] = _size_of(run)
        return False

    done = clean_runs(folder, before, is_used)
    return Tidied(
        removed=done.removed,
        in_use=[run_id for run_id in done.in_use if run_id not in kept],
        failed=done.failed,
        left=left,
        unmerged=unmerged,
        freed=sum(sizes[run_id] for run_id in done.removed),
    )


def rehearse(folder: Runs, before: float, chosen: Chosen) -> Tidied:
    """What would be done, found without touching anything."""

    tidied = Tidied()
    for run in reversed(list_runs(folder)):
        try:
            if run.id in chosen.newest or last_change(run) >= before:
                continue
            summary = summary_of(run)
            if not chosen.wants(summary):
                continue
            if is_held(run.lock_file) or is_kept(run):
                tidied.in_use.append(run.id)
                continue
            if chosen.spares(summary):
                tidied.left[run.id] = summary.status
                continue
            tree = _worktree_of(run)
            if tree is not None and has_unmerged(tree):
                tidied.unmerged.append(run.id)
                continue
            tidied.shown.append(summary)
            tidied.removed.append(run.id)
            tidied.freed += _size_of(run)
        except (OSError, OrchestrateError) as error:
            tidied.failed.append((run.id, str(error)))
    return tidied


def _worktree_of(run: Run) -> Worktree | None:
    """The worktree of a run; a run that cannot be read has none that we know of."""
    with suppress(OrchestrateError):
        found = newest_document(run).get("engine", {}).get("worktree")
        return None if found is None else Worktree(**found)
    return None


def _lets_worktree_go(run: Run) -> bool:
    """Remove the run's worktree; False if it has something that would be lost.

    The run's lock is held: no process begins to work there meanwhile.
    """
    tree = _worktree_of(run)
    if tree is None:
        return True
    try:
        lock = lock_run(run.lock_file, run.id, ("orchestrate", "clean", run.id))
    except LockHeldError:
        return True  # the run stays, being in use
    with lock:
        return is_kept(run) or remove_merged(tree)


def _size_of(run: Run) -> int:
    """What a run's folder takes on the disk; links are not followed."""
    total = 0
    for folder, _, names in os.walk(run.root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total
