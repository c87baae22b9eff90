"""Watches the files of a recipe, and checks or runs it again whenever one of them changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.definitions.check import checked_file
from orchestrate.app.definitions.find import compile_definition, compiled
from orchestrate.app.definitions.watched_files import (
    FileStamps,
    contents_of,
    files_of,
    take_snapshot,
)
from orchestrate.diagnostics import CheckedFile
from orchestrate.exits import HUNG_UP, INTERRUPTED, TERMINATED
from orchestrate.plan.visible import plural, visible
from orchestrate.record import field, mutable_record

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.workspace import Workspace

_POLL_S = 0.25
# An editor may write several files, or one in several steps: this long nothing must have changed.
_QUIET_S = 0.3
# A recipe that changes its own files would run for ever, and cost money each time.
_MOST_BY_ITSELF = 3
_MOST_NAMES = 5
_MOST_ROUNDS = 1000
_SIGNALS = (HUNG_UP, INTERRUPTED, TERMINATED)


@mutable_record
class WatchedRecipe:
    """What is watched, what is done each time, and what came of it so far.

    `run` gives an exit code, and may add to the record of its round.
    """

    file: str
    workspace: Workspace
    show: Callable[[CheckedFile], None]
    # None: the recipe is only checked.
    run: Callable[[dict[str, Any]], int] | None
    note: Callable[[str], None]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0
    by_itself: int = 0


def keep_watch(watched: WatchedRecipe) -> int:
    """Go on until a signal ends it; the exit code."""
    paths: list[str] = []
    changed: list[str] = []
    while True:
        # Taken before anything is read: what changes from now on is seen as a change.
        before = take_snapshot(paths)
        compilation = _compile(watched)
        paths = files_of(compilation, watched.workspace)
        before = FileStamps({**take_snapshot(paths).looks, **before.looks})
        contents = contents_of(before.looks)
        code = _round(watched, compilation, changed)
        if code in _SIGNALS:
            return code
        if compilation.program is None:
            # A file that a mistake has taken out of it may become part of it again.
            paths = list(before.looks)
        changed = _await_change(watched, before, contents, paths)


def _compile(watched: WatchedRecipe) -> Compilation:
    compilation = compile_definition(watched.file, watched.workspace)
    if watched.count == 0 and not os.path.lexists(compilation.path):
        # A slip: waiting for it makes no sense, and it is refused.
        compiled(watched.file, watched.workspace)
    return compilation


def _round(watched: WatchedRecipe, compilation: Compilation, changed: list[str]) -> int:
    """Check or run once; mistakes are told, and the watch goes on."""
    watched.count += 1
    told: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "changed": changed,
        "valid": compilation.program is not None,
        "exit_code": None,
    }
    # Listed from its beginning: Ctrl-C may come at any moment.
    watched.rounds = [*watched.rounds, told][-_MOST_ROUNDS:]
    if watched.run is None or compilation.program is None:
        watched.show(checked_file(compilation, watched.workspace, strict=False))
        code = compilation.exit_code
    else:
        code = watched.run(told)
    told["exit_code"] = code
    return code


def _await_change(
    watched: WatchedRecipe, before: FileStamps, contents: dict[str, str], paths: list[str]
) -> list[str]:
    """Wait until something has really changed and all is quiet; the names of what changed."""
    seen = take_snapshot(paths)
    during = _changed_files(before, contents, seen, paths)
    watched.by_itself = watched.by_itself + 1 if during and watched.run is not None else 0
    if during and watched.by_itself < _MOST_BY_ITSELF:
        _settle(paths)
        return _tell_change(watched, during)
    if during:
        what = f"{_names(watched, during)} changed during each of the last {_MOST_BY_ITSELF} runs"
        watched.note(f"{what}: perhaps the recipe changes it itself\n")
        watched.by_itself = 0
        before, contents = seen, contents_of(paths)
    watched.note(f"watching {plural(len(paths), 'file')}; Ctrl-C ends it\n")
    while True:
        time.sleep(_POLL_S)
        if take_snapshot(paths).changed_since(seen):
            seen = _settle(paths)
            changed = _changed_files(before, contents, seen, paths)
            if changed:
                return _tell_change(watched, changed)


def _settle(paths: list[str]) -> FileStamps:
    """Wait until nothing has changed for a moment."""
    last = take_snapshot(paths)
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < _QUIET_S:
        time.sleep(_QUIET_S / 6)
        now = take_snapshot(paths)
        if now.changed_since(last):
            last, quiet_since = now, time.monotonic()
    return last


def _changed_files(
    before: FileStamps, contents: dict[str, str], now: FileStamps, paths: list[str]
) -> list[str]:
    """Those whose content has changed; a new time of change does not count."""
    candidates = [path for path in now.changed_since(before) if path in paths]
    fresh = contents_of(candidates)
    return [path for path in candidates if fresh[path] != contents.get(path, "")]


def _tell_change(watched: WatchedRecipe, changed: list[str]) -> list[str]:
    watched.note(f"\n{_names(watched, changed)} changed\n")
    return [watched.workspace.display(Path(path)) for path in changed]


def _names(watched: WatchedRecipe, paths: list[str]) -> str:
    shown = [visible(watched.workspace.display(Path(path))) for path in paths[:_MOST_NAMES]]
    more = f" and {len(paths) - _MOST_NAMES} more" if len(paths) > _MOST_NAMES else ""
    return ", ".join(shown) + more
