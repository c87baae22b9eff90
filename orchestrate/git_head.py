"""The commit that a repository stands at, read from its files: cheap, offline, no program started.

It is recorded when a run starts, goes on and stops, so that a report can say what was committed in
between. Where anything is unusual the answer is '', which a report calls unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.regex import regex

_COMMIT = regex(r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = regex(r"\Aref: (refs/[^\x00-\x20\x7f]{1,500})\Z")
# A file of references that were packed; no repository that people work in has a longer one.
_MOST = 16 * 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def head_of(folder: Path) -> str:
    """The commit of the repository around a folder; '' if there is none that we can read."""
    git = git_folder(folder)
    if git is None:
        return ""
    head = _read(git / "HEAD", 1024).strip()
    if _COMMIT.match(head):
        return head
    branch = branch_of(git)
    if not branch:
        return ""
    common = common_folder(git)
    for place in dict.fromkeys((git, common)):
        found = _read(place / branch, 1024).strip()
        if _COMMIT.match(found):
            return found
    return _packed(common / "packed-refs", branch)


def branch_of(git: Path) -> str:
    """The reference that a repository's HEAD names; '' where it names a commit or is unusual."""
    named = _REF.match(_read(git / "HEAD", 1024).strip())
    return "" if named is None or ".." in named[1] else named[1]


def common_folder(git: Path) -> Path:
    """Where a repository keeps what all its work trees share."""
    shared = _read(git / "commondir", 4096).strip()
    return Path(os.path.normpath(git / shared)) if shared else git


def git_above(folder: Path) -> Path | None:
    """`.git` of the folder or of the nearest one above it that has one."""
    entries = (place / ".git" for place in (folder, *folder.parents))
    return next((git for git in entries if os.path.exists(git)), None)


def git_folder(folder: Path) -> Path | None:
    """Where the repository is kept; in a worktree `.git` is a file that names the folder."""
    git = git_above(folder)
    if git is None or git.is_dir():
        return git
    text = _read(git, 4096).strip()
    if not text.startswith("gitdir: "):
        return None
    return Path(os.path.normpath(git.parent / text.removeprefix("gitdir: ")))


def _packed(path: Path, ref: str) -> str:
    for line in _read(path, _MOST).splitlines():
        commit, _, name = line.partition(" ")
        if name == ref and _COMMIT.match(commit):
            return commit
    return ""


def _read(path: Path, most: int) -> str:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        try:
            data = file.read(most + 1) or b""
        except OSError:
            return ""
    return "" if len(data) > most else data.decode("utf-8", "replace")
