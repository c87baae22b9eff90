"""Which files a run has changed, as far as git can tell afterwards; and how that was found out.

A run records the commit that its workspace stood at when it started, went on and stopped. What was
committed in between is known. What is not committed is known only as it is now; the time of its
last change says whether that was while the run was at work. Who changed it is unknown.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from orchestrate.record import field, mutable_record, record
from orchestrate.view.history import Sitting

_PATIENCE_S = 20
_MOST_FILES = 500
_MOST_COMMITS = 50
_MOST_BYTES = 4 * 1024 * 1024
_WORDS = {"A": "added", "M": "modified", "D": "deleted", "R": "renamed", "C": "copied",
          "T": "modified", "U": "unmerged", "?": "new", "!": "ignored"}  # fmt: skip
# Neither the user's pager, hooks, external programs nor locks that would disturb other programs.
_QUIETLY = ("--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false",
            "-c", "core.hooksPath=/dev/null", "-c", "diff.external=",
            "-c", "log.showSignature=false", "-c", "status.submoduleSummary=false",
            "-c", "core.quotePath=false")  # fmt: skip
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"


@record
class Change:
    path: str
    what: str
    is_committed: bool
    # Of a file that is not committed: was it last changed while the run was at work?
    is_during: bool = True

    @property
    def may_be_the_runs(self) -> bool:
        """When a deleted file went is unknown."""
        return self.is_during or self.what == "deleted"


@mutable_record
class Changes:
    """`how` says in sentences what is known and how; `left_out` counts files not listed."""

    how: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    files: list[Change] = field(default_factory=list)
    left_out: int = 0

    @property
    def listed(self) -> list[Change]:
        """Those that may be the run's doing."""
        return [change for change in self.files if change.may_be_the_runs]

    @property
    def before(self) -> list[Change]:
        """Those that the run has not touched, by their times."""
        return [change for change in self.files if not change.may_be_the_runs]


def find_changes(workspace: Path, sittings: Sequence[Sitting], now: float) -> Changes:
    """Ask git, offline; every doubt is told."""
    changes = Changes()
    top = _git(workspace, "rev-parse", "--show-toplevel")
    if top is None:
        changes.how.append(
            "What the run changed is not known: the workspace is in no git repository, "
            "or git cannot be asked."
        )
        return changes
    root = Path(os.fsdecode(top).rstrip("\n"))
    _add_committed(changes, workspace, sittings)
    _add_uncommitted(changes, workspace, root, sittings, now)
    if len(changes.files) > _MOST_FILES:
        changes.left_out = len(changes.files) - _MOST_FILES
        del changes.files[_MOST_FILES:]
    return changes


def _add_committed(changes: Changes, workspace: Path, sittings: Sequence[Sitting]) -> None:
    if not sittings or not sittings[0].head:
        changes.how.append(
            "What was committed is not known: the run recorded no commit at its start."
        )
        return
    found: dict[str, str] = {}
    now_at = os.fsdecode(_git(workspace, "rev-parse", "HEAD") or b"").strip()
    for number, sitting in enumerate(sittings):
        after = sittings[number + 1].head if number + 1 < len(sittings) else now_at
        last = sitting.end_head or after
        if not sitting.head or not last:
            changes.how.append("A commit of one sitting of the run is not known.")
            continue
        how = f"Committed: the difference from {sitting.head[:12]} to {last[:12]}"
        if not sitting.end_head:
            how += ", where the repository stood afterwards: the end itself is not recorded"
        if last == sitting.head:
            said = f"Nothing was committed: HEAD stayed at {last[:12]}."
            if said not in changes.how:
                changes.how.append(said)
            continue
        named = _git(workspace, "diff", "--no-ext-diff", "--no-textconv", "--name-status", "-z",
                     sitting.head, last, "--", ".")  # fmt: skip
        if named is None:
            changes.how.append(f"{how}; but git does not know one of the two any more.")
            continue
        changes.how.append(f"{how}. Others may have committed meanwhile, too.")
        found |= _name_status(named)
        log = _git(workspace, "log", "-z", "--format=%h %s", f"--max-count={_MOST_COMMITS}",
                   f"{sitting.head}..{last}", "--")  # fmt: skip
        changes.commits += [line for line in _texts(log or b"") if line]
    changes.files += [Change(path, what, is_committed=True) for path, what in sorted(found.items())]


def _add_uncommitted(
    changes: Changes, workspace: Path, root: Path, sittings: Sequence[Sitting], now: float
) -> None:
    status = _git(workspace, "status", "--porcelain=v1", "-z", "--ignore-submodules", "--", ".")
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
    found = [
        Change(path, what, is_committed=False, is_during=_is_during(root / path, sittings, now))
        for path, what in entries
    ]
    changes.files += sorted(found, key=lambda change: not change.is_during)


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


def _git(workspace: Path, *arguments: str) -> bytes | None:
    """What git prints; None if it cannot be asked, fails or takes too long.

    The repository's own programs are not run: `git status` would start its filters on each file
    that looks changed. Without them a file may count as changed that is not.
    """
    named = _ask_git(workspace, "config", "--null", "--name-only", "--get-regexp", _FILTERS)
    off: list[str] = []
    for name in dict.fromkeys(_texts(named or b"")):
        if name:
            off += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    return _ask_git(workspace, *off, *arguments)


def _ask_git(workspace: Path, *arguments: str) -> bytes | None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    } | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(
            ["git", *_QUIETLY, *arguments], cwd=workspace, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout[:_MOST_BYTES] if done.returncode == 0 else None


def _texts(data: bytes) -> list[str]:
    return [os.fsdecode(part) for part in data.split(b"\0")]


def _name_status(data: bytes) -> dict[str, str]:
    """`M\\0path\\0R100\\0old\\0new\\0`."""
    parts = iter(_texts(data))
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
    parts = iter(_texts(data))
    found = []
    for entry in parts:
        if len(entry) < 4:
            continue
        letter = entry[1] if entry[1] != " " else entry[0]
        if "R" in entry[:2] or "C" in entry[:2]:
            next(parts, "")
        found.append((entry[3:], _WORDS.get(letter, letter)))
    return found
