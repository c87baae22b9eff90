"""The shadow of a run elsewhere: its published folder, kept beside its stub for commands that look.

    RUN/fleet.json           the stub
    RUN/shadow/store.git     what was fetched
    RUN/shadow/untold        there while the server may not have heard what was decided here
    RUN/shadow/runs/RUN/     the folder; locked by us while the run is at work, as it is there

Files grow in place, so that who follows one reads on. What was decided here is seen until the run
publishes again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from orchestrate.checkpoints.program import Git, own_git
from orchestrate.fleet import ssh
from orchestrate.fleet.host import alone
from orchestrate.fleet.publish import commit_of
from orchestrate.fleet.seat import state_ref
from orchestrate.fleet.stub import Stub
from orchestrate.fleet.take import lay_out
from orchestrate.fleet.transport import fetch_refs, require_git
from orchestrate.state.elsewhere import SHADOW
from orchestrate.state.locks import Lock, LockHeldError, Owner, lock_run
from orchestrate.state.runs import Run, Runs, point_latest
from orchestrate.view.run_summary import summary_of

_SHOWN = "refs/shown"
# The journal before the state: a reader of both in between finds a state that is behind.
_FIRST = "events.jsonl"


class Shadow:
    """What commands look at instead of a run that is elsewhere."""

    def __init__(self, run: Run, stub: Stub) -> None:
        folder = run.root / SHADOW
        self._stub = stub
        self._store = folder / "store.git"
        self._program = require_git()
        self.states = folder / "runs"
        self.untold = folder / "untold"
        self.run = Run(run.id, self.states / run.id)
        self._lock: Lock | None = None

    def refresh(self) -> bool:
        """Fetch what was published since; False if nothing ever was."""
        with alone(self._store.parent):  # several commands may look at it at once
            return self._refresh()

    def _refresh(self) -> bool:
        git = self._git()
        ref = state_ref(self.run.id)
        address = self._stub.seat.remote or ssh.git_address(
            self._stub.host, str(self._stub.seat.repository)
        )
        fetch_refs(self._program, self._store, address, f"+{ref}*:{ref}*")
        commit = commit_of(git, ref)
        if commit and commit != commit_of(git, _SHOWN):
            self._show(git, commit)
        return bool(commit)

    @property
    def is_under_way(self) -> bool:
        """Is what was published that of a run at work?"""
        return self.run.root.is_dir() and summary_of(self.run).status in ("running", "interrupted")

    def set_at_work(self, is_at_work: bool, machine: str = "") -> None:
        """Let the shadow be locked as long as the run is at work, in the name of its machine."""
        if is_at_work and self._lock is None and self.run.root.is_dir():
            try:
                self._lock = lock_run(self.run.lock_file, self.run.id, sys.argv)
            except LockHeldError:
                return  # another command of ours looks at it
            self._lock.sign(Owner(0, machine, "orchestrate worker", time.time()))
        elif not is_at_work and self._lock is not None:
            self._lock.release()
            self._lock = None

    def _git(self) -> Git:
        git = own_git(self._program, self._store)
        if not (self._store / "HEAD").exists():
            self._store.mkdir(parents=True, exist_ok=True, mode=0o700)
            git.output("init", "-q", "--bare", str(self._store))
        return git

    def _show(self, git: Git, commit: str) -> None:
        new = self._store.with_name("new")
        lay_out(git, commit, new)
        is_first = not self.run.root.is_dir()
        if is_first:
            self.states.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.rename(new, self.run.root)
            point_latest(Runs(self.states), self.run.id)
        else:
            names = sorted(_files_below(new), key=lambda name: (name != _FIRST, name))
            for name in names:
                _grow(new / name, self.run.root / name)
        git.output("update-ref", _SHOWN, commit)


def _files_below(folder: Path) -> list[str]:
    return [
        os.path.relpath(os.path.join(inside, name), folder)
        for inside, _, names in os.walk(folder)
        for name in names
    ]


def _grow(new: Path, old: Path) -> None:
    """Append what has come; a file that has become another one is replaced."""
    old.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = old.read_bytes() if old.exists() else b""
    now = new.read_bytes()
    if before == now and old.exists():
        return
    if before and now.startswith(before):
        with old.open("ab") as file:
            file.write(now[len(before) :])
    else:
        os.replace(new, old)
