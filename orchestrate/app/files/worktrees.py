"""Makes the git worktree that a run works in, and finds out what of it is not merged yet."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.files.git import GitError, git, has_git
from orchestrate.app.files.worktree_prepare import run_prepare
from orchestrate.checkpoints.model import checkpoint_from_json, checkpoint_to_json
from orchestrate.errors import ConfigError, OrchestrateError, UsageError, explain
from orchestrate.git_head import git_above
from orchestrate.plan.visible import plural, visible
from orchestrate.record import record, replace
from orchestrate.regex import regex
from orchestrate.state.durable import write_durably
from orchestrate.state.worktree import Worktree, ready_file, worktree_of

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.checkpoints.model import Checkpoint
    from orchestrate.engine.stop import Stop
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

_BRANCHES = "orchestrate/"
_NAME = regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SUBMODULE = "160000"
_PATIENCE_S = 5.0
_LOOK_S = 0.2
Plan = Callable[[str], Worktree]


@record
class OwnPlace:
    """Where a new run works if not in its workspace, by its id; what its folder has before it
    begins; and what becomes of the place when the run has `left` it."""

    worktree: Plan | None
    furnish: Callable[[Path], None] = lambda _: None
    left: Callable[[Store], None] = lambda _: None


@record
class Unmerged:
    """What would be lost with a worktree: files that were not committed, and commits that no other
    branch has."""

    files: int = 0
    commits: int = 0
    is_there: bool = True

    def __bool__(self) -> bool:
        return bool(self.files or self.commits)


def plan_worktree(
    workspace: Workspace,
    settings: RunSettings,
    config: Config,
    begins_at: Workspace | None = None,
    files: Checkpoint | None = None,
) -> Plan | None:
    """Where a run's worktree will be, once the run has an id; None if it is to have none. It begins
    where the repository stands, or at the commit that `begins_at` has, or with the `files` of a
    checkpoint at the commit of that time.

    Everything that can be known to be in the way is refused here, before anything was made.
    """
    if settings.worktree is None:
        if settings.with_changes:
            raise UsageError("--with-changes needs --worktree")
        return None
    name = settings.worktree
    if name and not _NAME.match(name):
        raise UsageError(
            f"--worktree: '{visible(name)}' cannot be the name of a folder",
            "use letters, digits, '.', '_' and '-'",
        )
    repository, base = repository_of(workspace)
    if begins_at is not None and begins_at.root.is_dir():
        base = repository_of(begins_at)[1]
    if files is not None and _has_commit(repository, files.head):
        base = files.head
    folder = _folder(repository, config)
    if name and os.path.lexists(folder / name):
        raise UsageError(
            f"--worktree: {visible(str(folder / name))} exists already",
            "choose another name, or leave it out: the run's id is one",
        )
    inside = workspace.root.relative_to(repository)

    def planned(run_id: str) -> Worktree:
        path = folder / (name or run_id)
        return Worktree(
            str(path), str(path / inside), _BRANCHES + run_id, base, str(repository),
            settings.with_changes, None if files is None else checkpoint_to_json(files),
        )  # fmt: skip

    return planned


def _has_commit(repository: Path, commit: str) -> bool:
    """What a run had committed may be gone since."""
    try:
        git(repository, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


def repository_of(workspace: Workspace) -> tuple[Path, str]:
    """The top of the work tree around a workspace, and the commit it stands at."""
    if not has_git():
        raise ConfigError(
            "a worktree needs git, which is not installed",
            "install it, or leave --worktree out (fork: add --in-place)",
        )
    try:
        top = git(workspace.root, "rev-parse", "--show-toplevel").removesuffix("\n")
    except GitError as error:
        if "dubious ownership" in error.message:  # of another user, as in a container
            theirs = str((git_above(workspace.root) or workspace.root / ".git").parent)
            trust = shlex.join(("git", "config", "--global", "--add", "safe.directory", theirs))
            raise ConfigError(visible(error.message), f"to trust it: {visible(trust)}") from None
        raise UsageError(
            f"a worktree needs a git repository, and {visible(str(workspace.root))} is in none: "
            f"{visible(error.message)}",
            "make one with: git init, or leave --worktree out (fork: add --in-place)",
        ) from None
    try:
        base = git(workspace.root, "rev-parse", "--verify", "HEAD^{commit}").strip()
    except GitError:
        raise UsageError(
            "a worktree begins at a commit, and this repository has none yet",
            "commit something first: git add -A && git commit (fork: or add --in-place)",
        ) from None
    return Path(os.path.realpath(top)), base


def _folder(repository: Path, config: Config) -> Path:
    given = (config.values.get("worktree") or {}).get("folder")
    default = f"../{repository.name}.worktrees"
    return Path(os.path.abspath(repository / os.path.expanduser(given or default)))


def in_worktree(workspace: Workspace, state: RunState) -> Workspace:
    """The workspace that the steps of a run see."""
    tree = worktree_of(state)
    return workspace if tree is None else replace(workspace, root=Path(tree.root))


def require_worktree(
    run: Run, state: RunState, config: Config, reporter: Reporter, stop: Stop
) -> None:
    """Have the run's worktree there, with all that it was to have; one that is gone is refused.

    A start that was killed on the way is finished: no step has worked there yet.
    """
    tree = worktree_of(state)
    if tree is None:
        return
    if not ready_file(run).exists():
        make_worktree(run, state, config, reporter, stop)
    elif not os.path.isdir(tree.root):
        raise _gone(run, tree, reporter)


def _gone(run: Run, tree: Worktree, reporter: Reporter) -> ConfigError:
    words = ("git", "-C", tree.repository, "worktree", "add", "-f", tree.path, tree.branch)
    again = visible(shlex.join(words))
    anew = visible(reporter.place.command("resume", run.id, "--force-restart"))
    ways = [f"to start over in a new one: {anew}"]
    with suppress(GitError):
        git(tree.repository, "rev-parse", "--verify", f"refs/heads/{tree.branch}")
        ways.insert(0, f"to make it again from its branch: {again}")
    return ConfigError(
        f"the worktree of run {run.id} is gone: {visible(tree.path)}", "\n".join(ways)
    )


def make_worktree(
    run: Run, state: RunState, config: Config, reporter: Reporter, stop: Stop
) -> None:
    """Make the branch and the worktree, and bring what it is to have."""
    tree = worktree_of(state)
    assert tree is not None
    _add(tree)
    try:
        os.makedirs(tree.root, exist_ok=True)
    except OSError as error:
        raise explain("make", Path(tree.root), error) from error
    if tree.files is not None:
        from orchestrate.app.files.worktree_files import fill

        fill(run, Path(tree.root), checkpoint_from_json(tree.files))
    elif tree.with_changes:
        left_out = copy_changes(tree, changed_files(tree.repository))
        if left_out:
            reporter.note(f"  not taken along: {visible(', '.join(left_out))}\n")
    elif state.forked is None and (left := _uncommitted(tree.repository)):
        reporter.note(
            f"  {plural(left, 'uncommitted file')} not in the worktree "
            "(--with-changes takes them along)\n"
        )
    modules = submodules(tree.path)
    prepare = (config.values.get("worktree") or {}).get("prepare") or []
    if modules and not prepare:
        reporter.note(
            f"  empty in the worktree: submodule {visible(', '.join(modules))}; "
            "`worktree: prepare:` in the configuration can fill it\n"
        )
    if run_prepare(run, tree, prepare, reporter, stop):
        write_durably(ready_file(run), b"")


def _add(tree: Worktree) -> None:
    """Add the worktree; git that a killed orchestrator has started may still be at it."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            _remove_unready(tree)
            # By force: an entry that is left of a folder that is gone is taken over. (`prune` would
            # take the entries of the user's own worktrees that are not mounted right now.)
            words = ("worktree", "add", "-q", "-f", "-B", tree.branch, tree.path, tree.base)
            git(tree.repository, *words)
        except ConfigError:
            if not os.path.lexists(tree.path) or time.monotonic() >= give_up:
                raise
            time.sleep(_LOOK_S)
        else:
            return


def _remove_unready(tree: Worktree) -> None:
    """What a killed start has left; nothing that is not ours is touched."""
    if not os.path.lexists(tree.path):
        return
    try:
        stands_at = git(tree.path, "symbolic-ref", "-q", "HEAD").strip()
    except GitError:
        stands_at = ""
    is_empty = os.path.isdir(tree.path) and not os.listdir(tree.path)
    if is_empty:
        return
    if stands_at != f"refs/heads/{tree.branch}":
        raise ConfigError(
            f"{visible(tree.path)} is in the way of the run's worktree",
            "move it away, then resume",
        )
    git(tree.repository, "worktree", "remove", "--force", tree.path)


def _forget(tree: Worktree) -> None:
    """Remove git's entry of a worktree whose folder is gone, and no other."""
    with suppress(GitError):  # there is none
        git(tree.repository, "worktree", "remove", tree.path)


def remove_unbegun(tree: Worktree) -> None:
    """Take back a worktree in which nothing has worked, with its branch."""
    _remove_unready(tree)
    if not os.path.lexists(tree.path):
        _forget(tree)
    with suppress(GitError):
        git(tree.repository, "update-ref", "-d", f"refs/heads/{tree.branch}")
    with suppress(OSError):
        os.rmdir(os.path.dirname(tree.path))


def changed_files(repository: str) -> list[str]:
    """What differs from HEAD in a work tree, or is new to it; nothing that is ignored."""
    words = ("--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
    told = git(repository, "status", *words, "--ignore-submodules=all")
    return [entry[3:] for entry in told.split("\0") if entry]


def _uncommitted(repository: str) -> int:
    """How many files are; what lies in repositories inside, as worktrees may, is theirs."""
    return sum(not name.endswith("/") for name in changed_files(repository))


def copy_changes(tree: Worktree, changed: Iterable[str]) -> list[str]:
    """Bring uncommitted changes along, as they are in the work tree; says what could not be."""
    import shutil

    # What is gone comes first: a folder may stand in its place, or it was in one.
    ordered = sorted(changed, key=lambda name: _is_file(Path(tree.repository, name)))
    left_out = []
    for name in ordered:
        source, target = Path(tree.repository, name), Path(tree.path, name)
        try:
            if _is_file(source):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
            elif name.endswith("/") or (os.path.lexists(source) and not source.is_dir()):
                left_out.append(name)  # another repository, a pipe, a socket
            else:
                _remove(target, source)
        except OSError as error:
            raise explain("copy", source, error) from error
    return left_out


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _remove(target: Path, source: Path) -> None:
    """Remove a file that is gone, with the folders that are gone with it."""
    target.unlink(missing_ok=True)
    while not source.parent.is_dir():
        target, source = target.parent, source.parent
        try:
            target.rmdir()
        except OSError:
            return


def submodules(path: str) -> list[str]:
    """The submodules of a work tree; git leaves them empty in a new one."""
    told = git(path, "ls-files", "-s", "-z")
    return [e.partition("\t")[2] for e in told.split("\0") if e.startswith(_SUBMODULE)]


def unmerged(tree: Worktree) -> Unmerged:
    """What nothing but the worktree and its branch has."""
    is_there = os.path.isdir(tree.path)
    files = len(changed_files(tree.path)) if is_there else 0
    ref = f"refs/heads/{tree.branch}"
    tips = ["HEAD"] if is_there else []
    with suppress(GitError):
        git(tree.repository, "rev-parse", "--verify", "-q", ref)
        tips.append(ref)
    where = tree.path if is_there else tree.repository
    theirs = [tree.base]
    with suppress(GitError):
        theirs.append(git(tree.repository, "rev-parse", "--verify", "-q", "HEAD").strip())
    others = ["--not", f"--exclude={tree.branch}", "--branches", "--tags", "--remotes", *theirs]
    commits = git(where, "rev-list", "--count", *tips, *others) if tips else "0"
    return Unmerged(files, int(commits), is_there)


def has_unmerged(tree: Worktree) -> bool:
    """Would something be lost with the worktree? Where its repository is gone, nothing is left."""
    return os.path.isdir(tree.repository) and bool(unmerged(tree))


def remove_merged(tree: Worktree) -> bool:
    """Remove a worktree and its branch if nothing of it would be lost; False if it stays."""
    if not os.path.isdir(tree.repository):
        return True
    if unmerged(tree):
        return False
    if os.path.isdir(tree.path):
        # Without --force: git itself looks once more.
        git(tree.repository, "worktree", "remove", tree.path)
    else:
        _forget(tree)
    ref = f"refs/heads/{tree.branch}"
    with suppress(GitError):
        tip = git(tree.repository, "rev-parse", "--verify", "-q", ref).strip()
        git(tree.repository, "update-ref", "-d", ref, tip)
    with suppress(OSError):
        os.rmdir(os.path.dirname(tree.path))
    return True


def left_in(tree: Worktree) -> tuple[int, int] | None:
    """The files and commits that only the worktree has; None if git cannot say."""
    try:
        left = unmerged(tree)
    except OrchestrateError:
        return None
    return (left.files, left.commits) if left.is_there else None
