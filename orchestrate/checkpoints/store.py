"""The store of a run's checkpoints: a bare repository of our own, with an index of its own.

checkpoints/            in the run's folder, and removed with it
  config  info/         our settings; no attribute of the user's changes a byte
  index                 private and persistent: what has not changed costs one `lstat`
  objects/              copies of all that a checkpoint needs
  HEAD                  a commit of the newest tree, so that `git status` sees what is new
  seeding               the first capture is under way: the index is worth nothing without it
  pending               a tree whose objects are still being copied from the user's repository
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from orchestrate.checkpoints.capture import CaptureLimits, WorkspaceCapture
from orchestrate.checkpoints.copying import Copying
from orchestrate.checkpoints.model import (
    CHECKPOINTS,
    Change,
    ChangeKind,
    Checkpoint,
    CheckpointError,
    id_of,
)
from orchestrate.checkpoints.program import Deadline, deadline_in, find_git, own_git, quoted, split
from orchestrate.checkpoints.users import Repository, find_repository
from orchestrate.state.durable import write_visibly

# Objects are written out as they are made; the sync of HEAD, which comes after them, brings them
# and their names to the disk.
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	symlinks = true
	bare = false
	sharedRepository = 0600
	logAllRefUpdates = false
	untrackedCache = true
	preloadIndex = false
	splitIndex = false
	autocrlf = false
	safecrlf = false
	attributesFile = /dev/null
	fsync = loose-object,pack,pack-metadata
	fsyncMethod = writeout-only
[status]
	showUntrackedFiles = all
	renames = false
[gc]
	auto = 0
"""
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
# Above every `.gitattributes`: contents are kept as they are.
_ATTRIBUTES = b"* -text -crlf -ident -filter -working-tree-encoding\n"
_KINDS: dict[str, ChangeKind] = {"A": "added", "D": "deleted"}


class Store:
    """What was captured in a run. One process at a time captures; any number may read."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder = folder
        self.program = program
        self._git = own_git(program, folder)
        self._captures: dict[Path, WorkspaceCapture] = {}

    @property
    def exists(self) -> bool:
        return (self.folder / "HEAD").exists()

    def capture(
        self,
        workspace: Path,
        environment: Mapping[str, str] | None = None,
        limits: CaptureLimits | None = None,
        until: Deadline | None = None,
    ) -> Checkpoint:
        """Record the files of a workspace, and where its repository stands."""
        capture = self._capture_of(workspace, environment)
        return capture.take(limits or CaptureLimits(), until or deadline_in())

    def _capture_of(
        self, workspace: Path, environment: Mapping[str, str] | None
    ) -> WorkspaceCapture:
        capture = self._captures.get(workspace)
        if capture is None:
            variables = os.environ if environment is None else environment
            aside = self.folder / "objects"
            repository = find_repository(self.program, workspace, variables, aside)
            self._make(repository)
            capture = WorkspaceCapture(self.folder, self.program, workspace, repository)
            self._captures[workspace] = capture
        return capture

    def changes(self, old: str, new: str) -> tuple[Change, ...]:
        """How the files of one tree differ from those of another, by path."""
        if old == new:
            return ()
        parts = split(self._git.output("diff-tree", "-r", "-z", "--no-renames", old, new))
        found = []
        for line, path in zip(parts[::2], parts[1::2], strict=True):
            old_mode, new_mode, before, after, letter = line.decode("ascii")[1:].split(" ")
            kind = _KINDS.get(letter, "mode" if before == after else "changed")
            gone, is_new = kind == "deleted", kind == "added"
            found.append(
                Change(
                    path=os.fsdecode(path),
                    kind=kind,
                    old="" if is_new else before,
                    new="" if gone else after,
                    old_mode="" if is_new else old_mode,
                    new_mode="" if gone else new_mode,
                )
            )
        return tuple(found)

    def added(self, old: str, new: str) -> Iterator[str]:
        """The files that a tree has and an older one has not."""
        return (change.path for change in self.changes(old, new) if change.kind == "added")

    def patch(
        self, old: str, new: str, paths: Iterable[str] = (), *, lender: Store | None = None
    ) -> bytes:
        """The difference between two trees as `git diff` prints it; `lender` has the new one."""
        self.complete()
        chosen = [f":(literal){path}" for path in paths]
        git = self._git
        if lender is not None:
            git = git.with_variables(
                GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted(str(lender.folder / "objects"))
            )
        return git.output(
            "diff-tree", "-r", "-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
            old, new, "--", *chosen,
        )  # fmt: skip

    def files(self, tree: str) -> dict[str, tuple[str, str]]:
        """The mode and the object of each file of a tree."""
        found = {}
        for line in split(self._git.output("ls-tree", "-r", "-z", tree)):
            facts, _, path = line.partition(b"\t")
            mode, _, oid = facts.decode("ascii").split(" ")
            found[os.fsdecode(path)] = (mode, oid)
        return found

    def has_file(self, tree: str, path: str, content: bytes | None) -> bool:
        """Does a tree have a file with that content; or, without one, nothing at the path?"""
        found = self._git.output("ls-tree", "-z", tree, "--", os.path.normpath(path))
        if content is None or not found:
            return content is None and not found
        oid = found.partition(b"\t")[0].decode("ascii").split(" ")[2]
        return id_of(content, len(oid)) == oid

    def read_many(self) -> subprocess.Popen[bytes]:
        """A program that gives the contents of objects as it is asked for them."""
        return self._git.converse("cat-file", "--batch-command")

    def ignored_then(self, workspace: Path, tree: str, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths that were ignored when a tree was captured, by its own rules."""
        return self._capture_of(workspace, None).ignored_by(self.files(tree), list(paths))

    def begin_with(self, tree: str, workspace: Path) -> None:
        """Let the next capture of a workspace begin with what another store has captured of it."""
        self._capture_of(workspace, None).begin_with(tree)

    def overlay(self, tree: str, changes: Iterable[Change]) -> str:
        """The tree that has these changes, too."""
        index = self.folder / f"overlay-{os.urandom(6).hex()}"
        git = self._git.with_variables(GIT_INDEX_FILE=str(index))
        gone = "0" * len(tree)
        lines = [
            f"{one.new_mode or '0'} {one.new or gone}\t".encode() + os.fsencode(one.path) + b"\0"
            for one in sorted(changes, key=lambda one: bool(one.new))
        ]
        try:
            git.output("read-tree", tree)
            git.output("update-index", "--replace", "-z", "--index-info", given=b"".join(lines))
            return git.output("write-tree").decode("ascii").strip()
        finally:
            index.unlink(missing_ok=True)

    def export(self, tree: str, folder: Path) -> None:
        """Write all files of a tree into a folder; what else lies there stays."""
        index = self.folder / f"export-{os.urandom(6).hex()}"
        git = own_git(self.program, self.folder, folder).with_variables(GIT_INDEX_FILE=str(index))
        self.complete()
        try:
            git.output("read-tree", tree)
            git.output("checkout-index", "-a", "-f", "-q")
        finally:
            index.unlink(missing_ok=True)

    def complete(self) -> None:
        """Have every object in the store that a checkpoint needs, before contents are read."""
        for capture in self._captures.values():
            capture.copying.finish()
        Copying(self.folder, self.program).finish()

    def close(self) -> None:
        """The last capture was taken: wait for copies that are being made."""
        for capture in self._captures.values():
            with suppress(CheckpointError):
                capture.copying.finish()
        self._captures.clear()

    def _make(self, repository: Repository | None) -> None:
        """The folder as git wants it, without starting git for that."""
        if self.exists:
            return
        is_sha256 = repository is not None and repository.is_sha256
        for name in ("", "objects", "objects/pack", "refs", "info"):
            (self.folder / name).mkdir(exist_ok=True, mode=0o700)
        config = _CONFIG.format(version=int(is_sha256)) + (_SHA256 if is_sha256 else "")
        write_visibly(self.folder / "config", config.encode())
        write_visibly(self.folder / "info" / "attributes", _ATTRIBUTES)
        write_visibly(self.folder / "HEAD", b"ref: refs/heads/none\n")


def open_store(run: Path, environment: Mapping[str, str] | None = None) -> Store | None:
    """The store of the run with that folder; None where there is no git program."""
    program = find_git(os.environ if environment is None else environment)
    return None if program is None else Store(run / CHECKPOINTS, program)


def size_of(run: Path) -> int:
    """What a run's checkpoints take on the disk."""
    total = 0
    for folder, _, names in os.walk(run / CHECKPOINTS):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def remove(run: Path) -> None:
    """Remove a run's checkpoints, and nothing else of it."""
    shutil.rmtree(run / CHECKPOINTS, ignore_errors=True)
