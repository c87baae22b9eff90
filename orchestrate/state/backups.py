"""Copies of `state.json` from before a step, the last three of a run, and the way back to them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from orchestrate.errors import StateError, explain
from orchestrate.regex import regex
from orchestrate.state.address import file_name_for
from orchestrate.state.durable import read_file, write_durably
from orchestrate.state.runs import Run

KEPT = 3

_BACKUP = regex(r"\Astate\.json\.step_.+\.bak\Z")
_T = TypeVar("_T")


def back_up_state(run: Run, step: str) -> Path | None:
    """Copy the state as it is before a step (C §"State Backup"); None if there is none yet.

    A copy and not a hard link: an editor that damages `state.json` in place would damage both.
    """
    content = read_file(run.state)
    if content is None:
        return None
    older = list_backups(run)
    path = run.root / f"state.json.step_{file_name_for(step)}.bak"
    write_durably(path, content)
    try:
        _make_newest(path, older)
        for stale in list_backups(run)[KEPT:]:
            os.unlink(stale)
    except OSError as error:
        raise explain("keep", path, error) from error
    return path


def list_backups(run: Run) -> list[Path]:
    """The backups, newest first."""
    found = []
    try:
        with os.scandir(run.root) as entries:
            for entry in entries:
                if _BACKUP.match(entry.name) and entry.is_file(follow_symlinks=False):
                    changed = entry.stat(follow_symlinks=False).st_mtime_ns
                    found.append((changed, entry.name))
    except OSError as error:
        raise explain("read", run.root, error) from error
    return [run.root / name for _, name in sorted(found, reverse=True)]


def newest_valid(run: Run, check: Callable[[bytes], _T]) -> tuple[Path, _T]:
    """The newest state that passes `check`, and what `check` made of it (`resume --repair`).

    Looked at in this order: the state, the one before it, the backups. `check` raises `ValueError`
    or `StateError` for a state that is not valid.
    """
    tried = []
    for path in (run.state, run.state.with_name("state.json.prev"), *list_backups(run)):
        try:
            content = read_file(path)
            if content is not None:
                return path, check(content)
            tried.append(f"{path.name} is missing")
        except ValueError as error:
            tried.append(f"{path.name}: {error}")
        except StateError as error:
            tried.append(f"{path.name}: {error.message}")
    raise StateError(
        f"run {run.id} has no valid state ({'; '.join(tried)})",
        f"start over with: orchestrate resume {run.id} --force-restart",
    )


def _make_newest(path: Path, older: list[Path]) -> None:
    """Order the backups by their times even if the clock was set back in between."""
    times = [os.lstat(other).st_mtime_ns for other in older if other != path]
    own = os.lstat(path)
    newest = max(times, default=0)
    if stat.S_ISREG(own.st_mode) and own.st_mtime_ns <= newest:
        os.utime(path, ns=(own.st_atime_ns, newest + 1), follow_symlinks=False)
