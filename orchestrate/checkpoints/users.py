"""What can be read of the user's repository; nothing under its `.git` is ever written.

Most is read from its files. Git is asked only when the user's index has changed since it was last
asked, and then without any lock.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orchestrate.checkpoints.model import CheckpointError, Nested
from orchestrate.checkpoints.program import Deadline, Git, split, users_git
from orchestrate.digest import digest_of
from orchestrate.git_head import branch_of, common_folder, git_above, git_folder, head_of
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.regex import regex
from orchestrate.state.durable import read_file, write_visibly

_SHA256 = regex(r"(?im)^\s*objectformat\s*=\s*sha256\s*$")
# The mode of a submodule in an index.
GITLINK = b"160000"


@record
class Staged:
    """What is in the user's index."""

    digest: str = ""
    # `MODE OBJECT STAGE<TAB>PATH` of all files in the work tree, as `update-index` reads it.
    entries: tuple[bytes, ...] = ()
    # Tracked, although a rule ignores them.
    ignored: frozenset[bytes] = frozenset()
    # Can the index file be taken as it is? Not if flags hide files, or parts lie elsewhere.
    is_plain: bool = False


@mutable_record
class Repository:
    """The user's repository around a workspace."""

    # Where `.git` is, what it shares with other work trees, and the top of this one.
    git: Path
    common: Path
    top: Path
    reader: Git
    staged: Staged = field(default_factory=Staged)
    _seen: tuple[object, ...] = ()

    @property
    def is_sha256(self) -> bool:
        with suppress(OSError):
            return bool(_SHA256.search((self.common / "config").read_text("utf-8", "replace")))
        return False

    @property
    def index(self) -> Path:
        return self.git / "index"

    @property
    def objects(self) -> Path:
        return self.common / "objects"

    @property
    def branch(self) -> str:
        return branch_of(self.git)

    @property
    def head(self) -> str:
        return head_of(self.top)

    def rules_file(self) -> str:
        """The user's own file of rules for what is ignored everywhere; '' if there is none."""
        named = self.reader.output("config", "--type=path", "--get", "core.excludesFile", ok=1)
        if text := os.fsdecode(named.rstrip(b"\n")):
            return text
        variables = self.reader.variables
        home = variables.get("HOME", "")
        folder = variables.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
        return f"{folder}/git/ignore" if folder else ""

    def look(self, rules: object, until: Deadline) -> bool:
        """Read the index again if it, or the rules for what is ignored, changed; was it so?"""
        stamp = (stamp_of(self.index), rules)
        if stamp == self._seen:
            return False
        listed = split(self.reader.output("ls-files", "-s", "-v", "-z", until=until))
        entries = [entry for entry in listed if entry[2:8] != GITLINK and entry[:1] != b"S"]
        is_plain = len(entries) == len(listed) and all(entry[:2] == b"H " for entry in listed)
        self.staged = Staged(
            digest=digest_of(b"\0".join([entry[2:] for entry in listed])) if listed else "",
            entries=tuple([entry[2:] for entry in entries]),
            ignored=self._ignored(until),
            is_plain=is_plain and not any(self.git.glob("sharedindex.*")),
        )
        self._seen = stamp
        return True

    def judge_anew(self, until: Deadline) -> None:
        """A `.gitignore` has changed: other files may be tracked although they are ignored."""
        self.staged = replace(self.staged, ignored=self._ignored(until))

    def _ignored(self, until: Deadline) -> frozenset[bytes]:
        listed = self.reader.output("ls-files", "-c", "-i", "-z", "--exclude-standard", until=until)
        return frozenset(split(listed))


def find_repository(
    program: str, workspace: Path, environment: Mapping[str, str], aside: Path | None = None
) -> Repository | None:
    """The repository whose work tree a workspace is, or lies in; objects that git makes to read it
    go `aside`."""
    mark = git_above(workspace)
    git = git_folder(workspace)
    if mark is None or git is None or not (git / "HEAD").exists():
        return None
    top = mark.parent
    reader = users_git(program, environment, git, top, aside)
    return Repository(git, common_folder(git), top, reader)


def look_at_nested(program: str, folder: Path, path: str, aside: Path, until: Deadline) -> Nested:
    """Where a nested repository stands; its files are compared by their stamps, never read."""
    git = git_folder(folder / path)
    if git is None:
        return Nested(path, "", is_dirty=False)
    reader = users_git(program, os.environ, git, folder / path, aside)
    is_clean = (
        reader.answers("diff-files", "--quiet", "--ignore-submodules", until=until)
        and reader.answers("diff-index", "--cached", "--quiet", "HEAD", "--", until=until)
        and not reader.output("ls-files", "-o", "-z", "--exclude-standard", until=until)
    )
    return Nested(path, head_of(folder / path), not is_clean)


def stamp_of(path: Path | str) -> tuple[int, int, int] | None:
    """What changes when a file does; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def copy_with_time(source: Path, target: Path) -> None:
    """A copy of an index: its time says which of its entries git may not trust."""
    found = os.stat(source)
    content = read_file(source)
    if content is None:
        raise CheckpointError(f"{source} is gone")
    write_visibly(target, content)
    os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
