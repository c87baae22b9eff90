"""Takes a run's place on a worker: its mirror, work tree and folder, as they were published last.

What an earlier sitting left here is used only if it is exactly what was published: a folder that is
behind would repeat what was done elsewhere, and one that is ahead was given up by everybody else.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from orchestrate.checkpoints.program import Git, deadline_in, own_git
from orchestrate.errors import StateError
from orchestrate.fleet.host import alone, ensure_mirror, make_tree, prepare_tree, remove_seat
from orchestrate.fleet.keys import fleet_keys
from orchestrate.fleet.publish import (
    commit_of,
    publish,
    tree_of,
    tree_of_folder,
    tree_of_workspace,
)
from orchestrate.fleet.sealed import open_files
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.transport import PushRefused, fetch_refs, require_git
from orchestrate.state.runs import Runs, point_latest

_CHECKOUT_S = 600.0


def take_seat(seat: Seat, *, is_sha256: bool, prepare: Sequence[str]) -> bool:
    """Make the seat what was published last; False if its run has not begun yet."""
    program = require_git()
    ensure_mirror(seat, is_sha256=is_sha256)
    with alone(Path(seat.root)):
        git = own_git(program, seat.repository)
        work, state = fetch_published(git, seat)
        if not work:
            raise StateError(f"run {seat.id} is not in {seat.remote}", "it was removed there")
        if is_as_published(seat, git, work, state):
            _lead(git, seat, work, state)
            return True
        if seat.tree.exists() or seat.states.exists():
            remove_seat(seat)
        _lead(git, seat, work, state)
        restore_seat(seat, git, work, state)
    prepare_tree(seat, prepare)
    return bool(state)


def fetch_published(git: Git, seat: Seat, into: str = "") -> tuple[str, str]:
    """What the remote has of a run or an item: the commits of its files and of its folder."""
    into = into or seat.fetched
    names = ("work", "state")
    # A pattern, so that nothing is fetched of what is not there.
    specs = [f"+{seat.refs}{name}*:{into}{name}*" for name in names]
    fetch_refs(git.program, seat.repository, seat.remote, *specs)
    return commit_of(git, f"{into}work"), commit_of(git, f"{into}state")


def is_as_published(seat: Seat, git: Git, work: str, state: str) -> bool:
    """Are the files of the run here exactly those that two commits have?"""
    if not state or not seat.folder.is_dir() or not seat.tree.is_dir():
        return False
    return (
        tree_of_folder(seat, seat.folder, git) == tree_of(git, state)
        and tree_of_workspace(seat, git, work) == tree_of(git, work)
    )  # fmt: skip


def publish_rest(seat: Seat) -> None:
    """Publish what the engine could not publish any more, if there is anything."""
    if seat.folder.is_dir() and seat.tree.is_dir():
        publish(seat, seat.folder, require_git(), "left")


def catch_up(seat: Seat) -> bool:
    """Publish at last what could not be at its end; False if it is gone, or others have gone on."""
    if not seat.folder.is_dir():
        return False
    try:
        publish_rest(seat)
    except PushRefused:
        return False
    return True


def _lead(git: Git, seat: Seat, work: str, state: str) -> None:
    """Our own references are what this sitting has read: the next publication follows that."""
    git.output("update-ref", seat.work, work)
    if state:
        git.output("update-ref", seat.state, state)
    else:
        git.answers("update-ref", "-d", seat.state)


def restore_seat(seat: Seat, git: Git, work: str, state: str) -> None:
    """Make the work tree and the run's folder as they were published."""
    try:
        make_tree(seat, git, work)
        seat.states.mkdir(parents=True, mode=0o700)
        if state:
            new = seat.states / ".taken"
            lay_out(git, state, new)
            os.rename(new, seat.folder)
            point_latest(Runs(seat.states), seat.run)
    except BaseException:
        remove_seat(seat)
        raise


def lay_out(git: Git, commit: str, folder: Path) -> None:
    """Write the files of a published run folder, private as all files of a run are."""
    index = folder.with_name(f"{folder.name}.index")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    here = git.with_variables(GIT_WORK_TREE=str(folder), GIT_INDEX_FILE=str(index))
    try:
        here.output("read-tree", commit)
        here.output("checkout-index", "-a", "-f", "-q", until=deadline_in(_CHECKOUT_S))
    finally:
        index.unlink(missing_ok=True)
    open_files(folder, fleet_keys(), is_ours_alone=True)
    for inside, folders, names in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(inside, name), 0o700)
        for name in names:
            os.chmod(os.path.join(inside, name), 0o600)
    for name in ("logs", "artifacts"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
