"""Takes a checkpoint: asks git what is new, keeps that, and names what cannot be kept."""

from __future__ import annotations

import errno
import os
import stat
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha1, sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrate.checkpoints.copying import Copying
from orchestrate.checkpoints.former_rules import keep_rules, kept_rules
from orchestrate.checkpoints.model import Checkpoint, CheckpointError, LeftOut, Nested
from orchestrate.checkpoints.program import Deadline, own_git, split
from orchestrate.checkpoints.special import NO_FILE, Specials
from orchestrate.checkpoints.users import Repository, copy_with_time, look_at_nested, stamp_of
from orchestrate.record import field, mutable_record, record
from orchestrate.state.durable import remove_leftovers, write_visibly

_STATUS = ("status", "--porcelain=v2", "-z", "-uall", "--no-renames", "--ignore-submodules=all")
_MIB = 1 << 20
# So much is kept before the clock is looked at again.
_BATCH = 64 * _MIB
_BATCH_FILES = 2000
_NO_NAME = "git keeps no file of this name"
_GONE = (errno.ENOENT, errno.ENOTDIR)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@record
class CaptureLimits:
    """What one checkpoint may cost."""

    file: int = 100 * _MIB
    total: int = 1024 * _MIB


@mutable_record
class _Found:
    """What is new since the last capture; paths are relative to the top of the work tree."""

    changed: list[bytes] = field(default_factory=list)
    nested: list[bytes] = field(default_factory=list)
    # Does the index differ from the newest tree?
    is_new: bool = False
    # May a folder have other files in it than before?
    has_other_folders: bool = False


@mutable_record
class _Sorted:
    """What is to be done about what is new."""

    keep: list[tuple[bytes, int]] = field(default_factory=list)
    drop: list[bytes] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


class WorkspaceCapture:
    """Takes the checkpoints of one workspace."""

    def __init__(
        self,
        folder: Path,
        program: str,
        workspace: Path,
        repository: Repository | None,
    ) -> None:
        self._folder = folder
        self._program = program
        self._repository = repository
        self._top = workspace if repository is None else repository.top
        inside = os.fsencode(os.path.relpath(workspace, self._top))
        # With a slash at its end; empty where the workspace is the top.
        self._prefix = b"" if inside == b"." else inside + b"/"
        rules = "" if repository is None else repository.rules_file()
        self._rules_file = rules
        self._git = own_git(program, folder, self._top)
        self._rules: tuple[object, ...] | None = None
        self._specials = Specials(os.fsencode(self._top), self._prefix)
        self._special: list[LeftOut] = []
        self._tree = ""
        # Dropped from the index: what a rule ignores is not told of when it is back.
        self._gone: set[bytes] = set()
        self.copying = Copying(folder, program)

    def begin_with(self, tree: str) -> None:
        """Take the files of a tree for those of the last capture."""
        inside = (f"--prefix={os.fsdecode(self._prefix)}",) if self._prefix else ()
        self._git.output("read-tree", *inside, tree)

    def take(self, limits: CaptureLimits, until: Deadline) -> Checkpoint:
        """One checkpoint; an index that was damaged by a kill is made anew, once."""
        try:
            return self._take(limits, until)
        except CheckpointError:
            if until.left_s <= 0:
                raise
            for name in ("index", "index.lock"):
                (self._folder / name).unlink(missing_ok=True)
            self._rules = None
            return self._take(limits, until)

    def _take(self, limits: CaptureLimits, until: Deadline) -> Checkpoint:
        self.copying.look()
        if self._rules is None:
            # The process that held it is gone: one at a time captures.
            (self._folder / "index.lock").unlink(missing_ok=True)
            for place in (self._folder, self._folder / "info", *self._folder.glob("objects/??")):
                remove_leftovers(place)
        rules = self._rules
        is_judged_anew = self._look_at_rules(until)
        has_other_rules = rules != self._rules
        is_first = not (self._folder / "index").exists() or self._seeding.exists()
        is_seeded = is_first and self._seed(until)
        found = self._status(until)
        if any(path.rpartition(b"/")[2] == b".gitignore" for path in found.changed):
            if self._repository is not None and not is_judged_anew:
                self._repository.judge_anew(until)
            is_judged_anew = has_other_rules = True
        now_ignored: list[bytes] = []
        found.changed += self._tracked_although_ignored(is_judged_anew=is_judged_anew)
        if is_judged_anew:
            now_ignored = self._no_longer_seen(until)
        unseen = set(now_ignored)
        chosen = self._sort([path for path in found.changed if path not in unseen], limits)
        self._gone = (self._gone | {*chosen.drop}) - {path for path, _ in chosen.keep}
        chosen.drop += now_ignored
        if has_other_rules:
            self._specials.forget()
        if has_other_rules or found.has_other_folders:
            self._find_specials(until)
        named = {one.path for one in chosen.left_out}
        chosen.left_out += [one for one in self._special if one.path not in named]
        self._update(chosen, until)
        if chosen.keep or chosen.drop or found.is_new or not self._tree:
            self._note_tree(until)
        tree = self._tree_of_workspace(until)
        if is_seeded and self._repository is not None:
            self.copying.begin(tree, self._repository.objects)
            self._seeding.unlink()
        return self._checkpoint(tree, found.nested, chosen.left_out, now_ignored, until)

    def ignored_by(self, files: Mapping[str, tuple[str, str]], paths: list[str]) -> frozenset[str]:
        """Which paths the rules among some files ignore, or the user's own of any capture; a folder
        has these rules alone."""
        names = [name for name in files if name.rpartition("/")[2] == ".gitignore"]
        with TemporaryDirectory(prefix="rules-", dir=self._folder) as folder:
            rules = Path(folder)
            for depth in range(self._prefix.count(b"/")):
                above = Path(*Path(os.fsdecode(self._prefix)).parts[:depth], ".gitignore")
                with suppress(OSError):
                    _write_below(rules, above, (self._top / above).read_bytes())
            for name in names:
                content = self._git.output("cat-file", "blob", files[name][1])
                _write_below(rules, Path(os.fsdecode(self._prefix), name), content)
            git = own_git(self._program, self._folder, rules)
            asked = b"".join([self._prefix + os.fsencode(path) + b"\0" for path in paths])
            found = [
                git.output(
                    "-c", f"core.excludesFile={own or os.devnull}",
                    "check-ignore", "--no-index", "-z", "--stdin", given=asked, ok=1,
                )
                for own in (self._rules_file, *kept_rules(self._folder))
            ]  # fmt: skip
        return frozenset(self._shown(path) for one in found for path in split(one))

    def _checkpoint(
        self,
        tree: str,
        nested: list[bytes],
        left_out: list[LeftOut],
        now_ignored: list[bytes],
        until: Deadline,
    ) -> Checkpoint:
        repository = self._repository
        return Checkpoint(
            tree=tree,
            head="" if repository is None else repository.head,
            branch="" if repository is None else repository.branch,
            index="" if repository is None else repository.staged.digest,
            nested=tuple(self._look_at(path, until) for path in sorted(nested)),
            left_out=tuple(sorted(left_out, key=lambda one: one.path)),
            now_ignored=tuple(sorted(self._shown(path) for path in now_ignored)),
        )

    def _look_at(self, path: bytes, until: Deadline) -> Nested:
        name, aside = os.fsdecode(path.rstrip(b"/")), self._folder / "objects"
        nested = look_at_nested(self._program, self._top, name, aside, until)
        return Nested(self._shown(path.rstrip(b"/")), nested.head, nested.is_dirty)

    def _shown(self, path: bytes) -> str:
        """A path as it is from the workspace."""
        return os.fsdecode(path[len(self._prefix) :])

    def _look_at_rules(self, until: Deadline) -> bool:
        """Take over the user's rules for what is ignored; may what is ignored have changed?"""
        repository = self._repository
        seen: tuple[object, ...] = ()
        if repository is not None:
            theirs = repository.common / "info" / "exclude"
            seen = (stamp_of(theirs), stamp_of(self._rules_file) if self._rules_file else None)
            if self._rules is None or seen != self._rules:
                content = b""
                with suppress(OSError):
                    content = theirs.read_bytes()
                write_visibly(self._folder / "info" / "exclude", content)
                keep_rules(self._folder, self._rules_file, content)
            is_new = repository.look(seen, until)
        else:
            is_new = self._rules is None
        self._rules = seen
        return is_new

    @property
    def _seeding(self) -> Path:
        """There while our index names objects that nothing says to copy yet: one that a kill left
        so is of no use."""
        return self._folder / "seeding"

    def _seed(self, until: Deadline) -> bool:
        """Begin with what the user's index knows of unchanged files; True if there is such."""
        repository = self._repository
        if repository is None or not repository.staged.entries:
            return False
        staged = repository.staged
        write_visibly(self._seeding, b"")
        (self._folder / "index").unlink(missing_ok=True)
        if staged.is_plain and not self._prefix:
            copy_with_time(repository.index, self._folder / "index")
        else:
            kept = [one for one in staged.entries if _path_of(one).startswith(self._prefix)]
            kept = [one for one in kept if one.partition(b"\t")[0].endswith(b" 0")]
            listed = b"".join([one + b"\0" for one in kept])
            self._git.output("update-index", "-z", "--index-info", given=listed, until=until)
        self._note_tree(until)
        return True

    def _status(self, until: Deadline) -> _Found:
        chosen = ("--", f":(literal){os.fsdecode(self._prefix)}") if self._prefix else ()
        rules = f"core.excludesFile={self._rules_file or os.devnull}"
        found = _Found()
        before = stamp_of(self._folder / "index")
        listed = split(self._git.output("-c", rules, *_STATUS, *chosen, until=until))
        # Git keeps there how each folder was that it has looked into, except for a part of a tree.
        found.has_other_folders = bool(chosen) or stamp_of(self._folder / "index") != before
        for line in listed:
            if line[:1] == b"?":
                path = line[2:]
                (found.nested if path.endswith(b"/") else found.changed).append(path)
                continue
            spaces = 10 if line[:1] == b"u" else 8
            found.is_new = found.is_new or line[2:3] != b"."
            if line[3:4] != b".":
                found.changed.append(line.split(b" ", spaces)[-1])
        return found

    def _tracked_although_ignored(self, *, is_judged_anew: bool) -> list[bytes]:
        """Files that git tracks although a rule ignores them: they are the user's work, too. Once
        they are in the index, only those that were gone are asked about again."""
        if self._repository is None:
            return []
        ignored = self._repository.staged.ignored
        asked = ignored if is_judged_anew else ignored & self._gone
        return [path for path in asked if path.startswith(self._prefix)]

    def _no_longer_seen(self, until: Deadline) -> list[bytes]:
        """What was captured before and is ignored now."""
        rules = f"core.excludesFile={self._rules_file or os.devnull}"
        listed = split(
            self._git.output(
                "-c", rules, "ls-files", "-c", "-i", "-z", "--exclude-standard", until=until
            )
        )
        tracked = frozenset() if self._repository is None else self._repository.staged.ignored
        return [path for path in listed if path not in tracked]

    def _sort(self, changed: list[bytes], limits: CaptureLimits) -> _Sorted:
        """What of it can be kept, what is gone, and what is left out, and why."""
        chosen, left = _Sorted(), limits.total
        for path in sorted(set(changed)):
            full = os.path.join(os.fsencode(self._top), path)
            try:
                found = os.lstat(full)
            except OSError as error:
                chosen.drop.append(path)
                if error.errno not in _GONE:
                    chosen.left_out.append(LeftOut(self._shown(path), _unreadable(error)))
                continue
            if self._is_behind_link(path):
                chosen.drop.append(path)
                continue
            reason = _unfit(full, found, limits, left)
            if stat.S_ISDIR(found.st_mode):
                chosen.drop.append(path)
            elif reason:
                chosen.drop.append(path)
                is_special = not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode))
                chosen.left_out.append(LeftOut(self._shown(path), reason, is_special))
            else:
                left -= found.st_size
                chosen.keep.append((path, found.st_size))
        return chosen

    def _find_specials(self, until: Deadline) -> None:
        """Pipes, sockets, devices and what cannot be looked into."""
        rules = ("-c", f"core.excludesFile={self._rules_file or os.devnull}")
        asked = (*rules, "ls-files", "-o", "-i", "--directory", "--exclude-standard", "-z")
        found = self._specials.look(lambda: split(self._git.output(*asked, until=until)))
        judged = (*rules, "check-ignore", "--no-index", "-z", "--stdin")
        listed = b"".join([path + b"\0" for path in found])
        ignored = split(self._git.output(*judged, given=listed, until=until, ok=1)) if found else ()
        self._special = [
            LeftOut(self._shown(path), why, is_special=not path.endswith(b"/"))
            for path, why in found.items()
            if path not in ignored
        ]

    def _is_behind_link(self, path: bytes) -> bool:
        """Does a link lead there now? Then it is somewhere else, and not ours to keep."""
        parts = path.split(b"/")[:-1]
        above = [b"/".join(parts[: depth + 1]) for depth in range(len(parts))]
        return any(os.path.islink(os.path.join(os.fsencode(self._top), one)) for one in above)

    def _update(self, chosen: _Sorted, until: Deadline) -> None:
        """Bring the private index, and with it the objects, up to date."""
        if chosen.drop:
            gone = b"".join([path + b"\0" for path in chosen.drop])
            self._git.output(
                "update-index", "--force-remove", "-z", "--stdin", given=gone, until=until
            )
        batch: list[bytes] = []
        size = 0
        # What takes longer than there is time for is left out, and named.
        began = time.monotonic()
        most = max(until.left_s * 0.8, 0.0)
        for number, (path, length) in enumerate(chosen.keep):
            batch.append(path)
            size += length
            is_last = number == len(chosen.keep) - 1
            if is_last or size >= _BATCH or len(batch) >= _BATCH_FILES:
                refused = self._add(batch, until)
                chosen.left_out += [LeftOut(self._shown(one), _NO_NAME) for one in refused]
                batch, size = [], 0
                if not is_last and time.monotonic() - began > most:
                    rest = [one for one, _ in chosen.keep[number + 1 :]]
                    chosen.left_out += [LeftOut(self._shown(one), "out of time") for one in rest]
                    self._git.output(
                        "update-index", "--force-remove", "-z", "--stdin",
                        given=b"".join([one + b"\0" for one in rest]), until=until,
                    )  # fmt: skip
                    return

    def _add(self, paths: list[bytes], until: Deadline) -> list[bytes]:
        """Keep some files; those whose names git refuses, as they mean `.git` on some system."""
        listed = b"".join([path + b"\0" for path in paths])
        said = self._git.outcome(
            "update-index", "--add", "--replace", "--remove", "-z", "--stdin",
            given=listed, until=until,
        ).stderr  # fmt: skip
        return [path for path in paths if said and b"Ignoring path " + path + b"\n" in said]

    def _note_tree(self, until: Deadline) -> None:
        """Write the tree of the index, and let HEAD be a commit of it."""
        output = self._git.output("write-tree", "--missing-ok", until=until)
        tree = output.decode("ascii").strip()
        if tree == self._tree:
            return
        commit = _write_commit(self._folder, tree)
        write_visibly(self._folder / "HEAD", f"{commit}\n".encode())
        self._tree = tree

    def _tree_of_workspace(self, until: Deadline) -> str:
        if not self._prefix:
            return self._tree
        inside = os.fsdecode(self._prefix[:-1])
        found = self._git.output("ls-tree", "-d", "-z", self._tree, "--", inside, until=until)
        if not found:
            return self._git.output("mktree", until=until).decode("ascii").strip()
        return found.split(b" ")[2][: len(self._tree)].decode("ascii")


def _unfit(full: bytes, found: os.stat_result, limits: CaptureLimits, left: int) -> str:
    """Why a file cannot be kept, or ''."""
    if stat.S_ISLNK(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return NO_FILE
    if found.st_size > limits.file:
        return f"larger than {limits.file // _MIB} MiB"
    if found.st_size > left:
        return f"the checkpoint has {limits.total // _MIB} MiB already"
    try:
        os.close(os.open(full, _READ))
    except OSError as error:
        return _unreadable(error)
    return ""


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


def _write_below(folder: Path, name: Path, content: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def _path_of(entry: bytes) -> bytes:
    return entry.partition(b"\t")[2]


def _write_commit(folder: Path, tree: str) -> str:
    """A commit of a tree, written as git would: one program less to start."""
    who = "orchestrate <> 0 +0000"
    body = f"tree {tree}\nauthor {who}\ncommitter {who}\n\ncheckpoint\n".encode()
    content = b"commit %d\0" % len(body) + body
    name = (sha1 if len(tree) == 40 else sha256)(content).hexdigest()
    path = folder / "objects" / name[:2] / name[2:]
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_visibly(path, zlib.compress(content))
    return name
