"""The commit that a repository stands at, read from its files: cheap, offline, no program started.

It is recorded when a run starts, goes on and stops, so that a report can say what was committed in
between. Where anything is unusual the answer is '', which a report calls unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.agents.worktree import git_above
from orchestrate.regex import regex

_COMMIT = regex(r"\A(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF = regex(r"\Aref: (refs/[^\x00-\x20\x7f]{1,500})\Z")
# A file of references that were packed; no repository that people work in has a longer one.
_MOST = 16 * 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def head_of(folder: Path) -> str:
    """The commit of the repository around a folder; '' if there is none that we can read."""
    git = _git_folder(folder)
    if git is None:
        return ""
    head = _read(git / "HEAD", 1024).strip()
    if _COMMIT.match(head):
        return head
    named = _REF.match(head)
    if named is None or ".." in named[1]:
        return ""
    common = git
    shared = _read(git / "commondir", 4096).strip()
    if shared:
        common = Path(os.path.normpath(git / shared))
    for place in dict.fromkeys((git, common)):
        found = _read(place / named[1], 1024).strip()
        if _COMMIT.match(found):
            return found
    return _packed(common / "packed-refs", named[1])


def _git_folder(folder: Path) -> Path | None:
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
