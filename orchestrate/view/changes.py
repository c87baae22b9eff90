"""Which files a run has changed, as far as git can tell afterwards; and how that was found out.

A run records the commit that its workspace stood at when it started, went on and stopped. What was
committed in between is known. What is not committed is known only as it is now; the time of its
last change says whether that was while the run was at work. Who changed it is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrate.record import field, mutable_record, record, replace
from orchestrate.state.result import Approval
from orchestrate.state.times import seconds_of
from orchestrate.view.git import DIFF, WorkTree, open_repository, texts
from orchestrate.view.history import Sitting

_MOST_FILES = 500
_MOST_COMMITS = 50
# A file that git does not know is read to count its lines; longer ones are not.
_MOST_READ = 1024 * 1024
_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied",
          "T": "modified", "U": "unmerged", "?": "new", "!": "ignored"}  # fmt: skip
# A path, with the lines added and removed.
_Lines = dict[str, tuple[int, int]]


@record
class FileChange:
    path: str
    what: str
    is_committed: bool
    # Of a file that is not committed: was it last changed while the run was at work?
    is_during: bool = True
    # Lines; None for a file that is not text, and where git does not say.
    added: int | None = None
    removed: int | None = None

    @property
    def may_be_the_runs(self) -> bool:
        """When a deleted file went is unknown."""
        return self.is_during or self.what == "deleted"

    @property
    def counted(self) -> str:
        """`+12 -3`; '' where it is not known."""
        return "" if self.added is None else f"+{self.added} -{self.removed}"

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "what": self.what,
            "committed": self.is_committed,
            "during_run": self.is_during,
            "added": self.added,
            "removed": self.removed,
        }


@mutable_record
class Changes:
    """`how` says in sentences what is known and how; `left_out` counts files not listed."""

    how: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    files: list[FileChange] = field(default_factory=list)
    left_out: int = 0
    # False where git cannot be asked at all.
    is_known: bool = True

    @property
    def listed(self) -> list[FileChange]:
        """Those that may be the run's doing."""
        return [change for change in self.files if change.may_be_the_runs]

    @property
    def before(self) -> list[FileChange]:
        """Those that the run has not touched, by their times."""
        return [change for change in self.files if not change.may_be_the_runs]


def last_gate(approvals: Sequence[Approval]) -> Approval | None:
    """The gate that was answered last: what was changed before it was asked has been seen."""
    answered = [gate for gate in approvals if gate.decided_at is not None]
    return max(answered, key=lambda gate: gate.requested_at, default=None)


def find_changes(
    workspace: Path, sittings: Sequence[Sitting], now: float, since: Approval | None = None
) -> Changes:
    """Ask git, offline; every doubt is told. With `since`, only from the asking of that gate on."""
    changes = Changes()
    git = open_repository(workspace)
    if git is None:
        changes.is_known = False
        changes.how.append(
            "What the run changed is not known: the workspace is in no git repository, "
            "or git cannot be asked."
        )
        return changes
    if since is not None:
        changes.how.append(f"Since gate '{since.stage}' was asked.")
        sittings = sittings_since(git, sittings, since)
    _add_committed(changes, git, sittings)
    _add_uncommitted(changes, git, sittings, now)
    if len(changes.files) > _MOST_FILES:
        changes.left_out = len(changes.files) - _MOST_FILES
        del changes.files[_MOST_FILES:]
    return changes


def sittings_since(git: WorkTree, sittings: Sequence[Sitting], gate: Approval) -> Sequence[Sitting]:
    """What is left of the sittings; the first begins where HEAD was when the gate was asked."""
    at = seconds_of(gate.requested_at)
    left = [one for one in sittings if one.end is None or one.end >= at]
    if not left or left[0].start >= at:
        return left
    return [replace(left[0], start=at, head=git.head_at(at) or left[0].head), *left[1:]]


def commit_ranges(git: WorkTree, sittings: Sequence[Sitting]) -> list[tuple[Sitting, str]]:
    """Each sitting with the commit that it ended at; '' where that is not known."""
    heads = [*(one.head for one in sittings[1:]), git.head]
    return [(one, one.end_head or after) for one, after in zip(sittings, heads, strict=False)]


def _add_committed(changes: Changes, git: WorkTree, sittings: Sequence[Sitting]) -> None:
    if not sittings or not sittings[0].head:
        changes.how.append(
            "What was committed is not known: the run recorded no commit at its start."
        )
        return
    found: dict[str, str] = {}
    counted: _Lines = {}
    ranges = commit_ranges(git, sittings)
    if all(last and last == sitting.head for sitting, last in ranges):
        stood = dict.fromkeys(last[:12] for _, last in ranges)
        changes.how.append(f"Nothing was committed: HEAD stayed at {', '.join(stood)}.")
    for sitting, last in ranges:
        if not sitting.head or not last:
            changes.how.append("A commit of one sitting of the run is not known.")
            continue
        how = f"Committed: the difference from {sitting.head[:12]} to {last[:12]}"
        if not sitting.end_head:
            how += ", where the repository stood afterwards: the end itself is not recorded"
        if last == sitting.head:
            continue
        named = git.ask(*DIFF, "--name-status", "-z", sitting.head, last, "--", ".")
        if named is None:
            changes.how.append(f"{how}; but git does not know one of the two any more.")
            continue
        changes.how.append(f"{how}. Others may have committed meanwhile, too.")
        found |= _name_status(named)
        for path, (added, removed) in _count_lines(git, sitting.head, last).items():
            before = counted.get(path, (0, 0))
            counted[path] = (before[0] + added, before[1] + removed)
        log = git.ask("log", "-z", "--format=%h %s", f"--max-count={_MOST_COMMITS}",
                      f"{sitting.head}..{last}", "--")  # fmt: skip
        changes.commits += [line for line in texts(log or b"") if line]
    for path, what in sorted(found.items()):
        lines = counted.get(path, (None, None))
        changes.files.append(FileChange(path, what, True, added=lines[0], removed=lines[1]))


def _add_uncommitted(
    changes: Changes, git: WorkTree, sittings: Sequence[Sitting], now: float
) -> None:
    status = git.ask("status", "--porcelain=v1", "-z", "--ignore-submodules",
                     "--untracked-files=all", "--", ".")  # fmt: skip
    if status is None:
        changes.how.append("What is not committed is not known: `git status` gave no answer.")
        return
    entries = _porcelain(status)
    if not entries:
        changes.how.append("Nothing is uncommitted now.")
        return
    changes.how.append(
        "Not committed: `git status` as it is now. A file counts as changed during the run when "
        "its time of last change lies in one of the run's sittings; what was already uncommitted "
        "when the run started is not recorded."
    )
    counted = _count_lines(git, git.head_or_nothing)
    found: list[FileChange] = []
    for path, what in entries:
        is_during = _is_during(git.root / path, sittings, now)
        lines = counted.get(path) or (None, None)
        if what == "new" and len(found) < _MOST_FILES:
            lines = count_new(git.root / path)
        found.append(FileChange(path, what, False, is_during, *lines))
    changes.files += sorted(found, key=lambda change: not change.is_during)


def _count_lines(git: WorkTree, *between: str) -> _Lines:
    """`12\\t3\\tpath\\0`; for a renamed one the two paths come behind. `-` for what is not text."""
    parts = iter(texts(git.ask(*DIFF, "--numstat", "-z", *between, "--", ".") or b""))
    found: _Lines = {}
    for entry in parts:
        added, _, rest = entry.partition("\t")
        removed, _, path = rest.partition("\t")
        if not path:
            next(parts, "")
            path = next(parts, "")
        if added.isdigit() and removed.isdigit():
            found[path] = (int(added), int(removed))
    return found


def count_new(path: Path) -> tuple[int, int] | tuple[None, None]:
    text = text_of_new(path)
    return (None, None) if text is None else (len(text.splitlines()), 0)


def text_of_new(path: Path) -> str | None:
    """A file that git does not know; None if it is too long, or not a plain file of text."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(_MOST_READ + 1)
    except OSError:
        return None
    if len(data) > _MOST_READ or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


def _is_during(path: Path, sittings: Sequence[Sitting], now: float) -> bool:
    try:
        at = os.lstat(path).st_mtime_ns
    except OSError:
        return False
    # Some file systems keep whole seconds, in steps of up to two.
    slack = 2.0 if at % 10**9 == 0 else 0.0
    return any(
        one.start - slack <= at / 10**9 <= (one.end if one.end is not None else now) + slack
        for one in sittings
    )


def _name_status(data: bytes) -> dict[str, str]:
    """`M\\0path\\0R100\\0old\\0new\\0`."""
    parts = iter(texts(data))
    found = {}
    for letter in parts:
        path = next(parts, "")
        if letter[:1] in ("R", "C"):
            path = next(parts, path)
        if path:
            found[path] = _WORDS.get(letter[:1], letter)
    return found


def _porcelain(data: bytes) -> list[tuple[str, str]]:
    """`XY path\\0`, and for a renamed one also `old\\0`."""
    parts = iter(texts(data))
    found = []
    for entry in parts:
        if len(entry) < 4:
            continue
        letter = entry[1] if entry[1] != " " else entry[0]
        if "R" in entry[:2] or "C" in entry[:2]:
            next(parts, "")
        found.append((entry[3:], _WORDS.get(letter, letter)))
    return found
