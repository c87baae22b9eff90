"""Publishes a run: its workspace and its folder, as two references that change together.

After an agent's step, and whenever the run stops, at a gate, too, something is there that others
may want or that would be dear to lose; in between it is published from time to time. A publication
that fails is told once, and the run goes on: all of it is on the machine.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrate.app.working.session_files import gather_sessions
from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.program import Git, deadline_in, find_git, own_git
from orchestrate.errors import ConfigError
from orchestrate.fleet.keys import fleet_keys
from orchestrate.fleet.sealed import seal_files
from orchestrate.fleet.seat import COMMITTER, Seat, seat_of
from orchestrate.fleet.transport import push
from orchestrate.git_head import head_of
from orchestrate.plan.durations import seconds_of
from orchestrate.state.events import Event, StepFinished
from orchestrate.state.model import RunState
from orchestrate.state.store import Store

# How long a large repository may take.
_PATIENCE_S = 600.0
# What only the machine itself can use: locks, sockets, half-written files, our other stores.
_OWN_FOLDERS = frozenset(("keeper", "checkpoints"))
_OWN_ENDINGS = (".lock", ".tmp", ".sock")


class Publisher:
    """Hears a run's events, and publishes after those that count."""

    def __init__(self, seat: Seat, store: Store, program: str, tell: Callable[[str], None]) -> None:
        self._seat = seat
        self._store = store
        self._tell = tell
        self._program = program
        seat.indexes.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._last = time.monotonic()
        self._has_failed = False
        is_word = seat.publish in ("step", "gate")
        self._pause_s = float("inf") if is_word else seconds_of(seat.publish)

    def begin(self) -> None:
        """Where others look at what is published, they see from the start that it is at work."""
        if self._seat.remote:
            self.publish("begins")

    def hear(self, event: Event, _: RunState) -> None:
        """The listener of the run's store."""
        if isinstance(event, StepFinished) and self._counts(event):
            self.publish(f"after {event.node}")

    def publish(self, what: str) -> None:
        """Publish what there is now; the run goes on whatever comes of it."""
        try:
            self.publish_now(what)
        except (CheckpointError, ConfigError, OSError) as error:
            if not self._has_failed:
                self._tell(f"orchestrate: the run could not be published: {error}\n")
            self._has_failed = True

    def publish_now(self, what: str) -> None:
        """Publish what there is now."""
        self._last = time.monotonic()
        self._store.sync()
        self._store.checkpoint()
        gather_sessions(self._store.state, self._store.run, os.environ)
        publish(self._seat, self._store.run.root, self._program, what)

    def _counts(self, event: StepFinished) -> bool:
        if self._seat.publish == "gate":
            return False
        is_due = time.monotonic() - self._last >= self._pause_s
        is_agents = bool(event.result.backend or event.result.provider)
        return self._seat.publish == "step" or is_due or is_agents


def begin_publishing(store: Store, tell: Callable[[str], None]) -> Publisher:
    """Of a run that works in a seat."""
    program = find_git(os.environ)
    if program is None:
        raise ConfigError("git is not installed", "a run in a seat publishes what it makes by git")
    fleet_keys()  # refuses what it cannot seal with, before anything has run
    return Publisher(seat_of(store.state.settings["seat"]), store, program, tell)


def publish(seat: Seat, folder: Path, program: str, what: str) -> None:
    """Commit the workspace and the run folder, and let both references lead to them, or none."""
    work, state = seat.work, seat.state
    until = deadline_in(_PATIENCE_S)
    git = own_git(program, seat.repository).with_variables(**COMMITTER)
    old_work, old_state = commit_of(git, work), commit_of(git, state)
    tree = tree_of_workspace(seat, git, old_work)
    head = head_of(seat.tree)
    message = f"orchestrate {seat.id}: {what}"
    new_work = _commit_work(git, tree, old_work, head, message)
    parents = ("-p", old_state) if old_state else ()
    kept = tree_of_folder(seat, folder, git)
    new_state = old_state
    if not old_state or tree_of(git, old_state) != kept:
        new_state = _text(git.output("commit-tree", kept, *parents, "-m", message, until=until))
    if (old_work, old_state) == (new_work, new_state):
        return
    if seat.remote:
        moved = {work: (old_work, new_work), state: (old_state, new_state)}
        push(program, seat.repository, seat.remote, moved)
    # As a push with a lease: who has moved one of them meanwhile wins, and we are told.
    nothing = "0" * len(new_state)
    orders = (
        f"update {work} {new_work} {old_work or nothing}\n"
        f"update {state} {new_state} {old_state or nothing}\n"
    )
    git.output("update-ref", "--stdin", given=orders.encode(), until=until)


def _commit_work(git: Git, tree: str, old: str, head: str, message: str) -> str:
    """The workspace as a commit that can be merged: it follows what was there and what was made."""
    if head and _follows(git, old, head) and tree_of(git, head) == tree:
        return head
    if old and tree_of(git, old) == tree and _follows(git, head, old):
        return old
    parents = [one for one in (old, head) if one]
    if len(parents) == 2 and _follows(git, old, head):
        parents = [head]
    elif len(parents) == 2 and _follows(git, head, old):
        parents = [old]
    named = [word for one in parents for word in ("-p", one)]
    return _text(git.output("commit-tree", tree, *named, "-m", message))


def _follows(git: Git, old: str, new: str) -> bool:
    return not old or (bool(new) and git.answers("merge-base", "--is-ancestor", old, new))


def tree_of_workspace(seat: Seat, git: Git, old: str) -> str:
    """All files that are tracked or not ignored, as they lie in the work tree now."""
    index = seat.indexes / "work"
    here = git.with_variables(GIT_WORK_TREE=str(seat.tree), GIT_INDEX_FILE=str(index))
    until = deadline_in(_PATIENCE_S)
    if old and not index.exists():
        here.output("read-tree", old, until=until)
    here.output("add", "-A", "--", ".", until=until)
    return _text(here.output("write-tree", until=until))


def tree_of_folder(seat: Seat, folder: Path, git: Git) -> str:
    """What of a run folder means something elsewhere."""
    index = seat.indexes / "state"
    until = deadline_in(_PATIENCE_S)
    names, keys = list(_files_of(folder)), fleet_keys()
    if keys is not None:
        seal_files(folder, names, keys, seat.indexes / "sealed")
        folder = seat.indexes / "sealed"
    here = git.with_variables(GIT_WORK_TREE=str(folder), GIT_INDEX_FILE=str(index))
    known = here.output("ls-files", "-z", until=until)
    listed = known + b"".join(os.fsencode(path) + b"\0" for path in names)
    here.output("update-index", "--add", "--remove", "-z", "--stdin", given=listed, until=until)
    return _text(here.output("write-tree", until=until))


def _files_of(folder: Path, inside: str = "") -> Iterator[str]:
    """The files of a run folder that mean something elsewhere, relative to it."""
    with os.scandir(folder / inside) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = os.path.join(inside, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if inside or entry.name not in _OWN_FOLDERS:
                yield from _files_of(folder, path)
        elif not entry.name.endswith(_OWN_ENDINGS) and stat.S_ISREG(
            entry.stat(follow_symlinks=False).st_mode
        ):
            yield path


def tree_of(git: Git, commit: str) -> str:
    return _text(git.output("rev-parse", f"{commit}^{{tree}}"))


def commit_of(git: Git, ref: str) -> str:
    """What a reference leads to; '' if it is not there."""
    return _text(git.output("rev-parse", "--verify", "--quiet", ref, ok=1))


def _text(output: bytes) -> str:
    return output.decode("ascii").strip()
