"""What has changed inside one of the changed files, as git shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrate.state.result import Approval
from orchestrate.view.changes import FileChange, commit_ranges, sittings_since, text_of_new
from orchestrate.view.git import DIFF, WorkTree, open_repository
from orchestrate.view.history import Sitting

MOST_CHARS = 40_000
_NO_TEXT = "It is not text, or is too long to show.\n"


def hunks_of(
    workspace: Path, change: FileChange, sittings: Sequence[Sitting], since: Approval | None = None
) -> str:
    """Hunks alone, or a sentence where there are none; cut at its end when it is long."""
    git = open_repository(workspace)
    if git is None:
        return ""
    if change.what == "new":
        found = _all_new(git.root / change.path)
    elif change.is_committed:
        left = sittings if since is None else sittings_since(git, sittings, since)
        found = "".join(_committed(git, change.path, left))
    else:
        found = _between(git, change.path, git.head_or_nothing)
    found = found or _NO_TEXT
    if len(found) <= MOST_CHARS:
        return found
    return f"{found[:MOST_CHARS]}\n… {len(found) - MOST_CHARS} characters more\n"


def _all_new(path: Path) -> str:
    text = text_of_new(path)
    if text is None:
        return ""
    lines = text.splitlines()
    return f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


def _committed(git: WorkTree, path: str, sittings: Sequence[Sitting]) -> Iterator[str]:
    for sitting, last in commit_ranges(git, sittings):
        if sitting.head and last and last != sitting.head:
            yield _between(git, path, sitting.head, last)


def _between(git: WorkTree, path: str, *commits: str) -> str:
    """The path is as the repository names it; without renames, it alone is enough."""
    whole = os.path.join(git.root, path)
    told = git.ask(*DIFF, "--no-renames", *commits, "--", whole) or b""
    text = told.decode("utf-8", "replace")
    at = text.find("\n@@ ")
    return "" if at < 0 else text[at + 1 :]
