"""On a machine of a pool: says what is free, makes seats, and starts runs in them.

`orchestrate seat VERB` is what the client calls over ssh: a document in, a document out.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrate import __version__
from orchestrate.checkpoints.program import Git, deadline_in, find_git, own_git
from orchestrate.checkpoints.users import copy_with_time
from orchestrate.errors import ConfigError, StateError, UsageError
from orchestrate.fleet.seat import WAITS, Seat, seat_of
from orchestrate.git_head import git_folder
from orchestrate.record import record
from orchestrate.state.delete import delete_tree
from orchestrate.state.runs import Run, Runs, is_run_id, list_runs
from orchestrate.view.run_summary import summary_of

# What both sides of a connection have to understand alike.
PROTOCOL = 2
_CHECKOUT_S = 600.0
_WARM = "refs/warm/work"


@record
class SeatOrder:
    """A run that is to be started in a seat: the recipe, its flags, and what comes before it."""

    seat: Seat
    file: str
    text: str | None
    flags: dict[str, Any]
    prepare: tuple[str, ...]
    slots: int
    # What the run's items need to know of the hosts.
    items: Mapping[str, Any]


def order_of(document: Mapping[str, Any]) -> SeatOrder:
    """An order as it arrives."""
    require_protocol(document)
    seat = seat_of(document["seat"])
    if not is_run_id(seat.run):
        raise UsageError(f"'{seat.run}' is not the id of a run")
    return SeatOrder(
        seat=seat,
        file=str(document["file"]),
        text=document.get("text"),
        flags=dict(document["flags"]),
        prepare=tuple(document["prepare"]),
        slots=int(document["slots"]),
        items=document["items"],
    )


def require_protocol(document: Mapping[str, Any]) -> None:
    """Refuse a client that speaks otherwise, before anything is done."""
    spoken = document.get("protocol")
    if spoken != PROTOCOL:
        raise ConfigError(
            f"orchestrate {__version__} here speaks protocol {PROTOCOL} of seats, not {spoken}",
            "install the same version of orchestrate on both machines",
        )


def offer(document: Mapping[str, Any]) -> dict[str, Any]:
    """How many runs may still begin here; and the mirror that a workspace can be pushed to."""
    require_protocol(document)
    root = root_of(str(document["root"]))
    seat = Seat("", str(root), str(document["mirror"]))
    ensure_mirror(seat, is_sha256=bool(document.get("sha256")))
    with alone(root):
        busy = len(at_work(root))
    free = max(0, int(document["slots"]) - busy)
    return {"free": free, "root": str(root), "mirror": str(seat.repository)}


def ensure_mirror(seat: Seat, *, is_sha256: bool) -> None:
    """The repository of a seat, which workspaces are pushed to or fetched into."""
    mirror = seat.repository
    with alone(Path(seat.root)):
        if not (mirror / "HEAD").exists():
            mirror.mkdir(parents=True, exist_ok=True, mode=0o700)
            format_ = "sha256" if is_sha256 else "sha1"
            _git(mirror).output("init", "-q", "--bare", f"--object-format={format_}", str(mirror))


def make_seat(order: SeatOrder) -> None:
    """The work tree of a run, with what was pushed; it is there whole, or not at all."""
    seat = order.seat
    with alone(Path(seat.root)):
        if len(at_work(Path(seat.root))) >= order.slots:
            raise StateError(f"all {order.slots} slots are taken", "wait, or name another pool")
        git = _git(seat.repository)
        try:
            make_tree(seat, git, seat.work)
            seat.states.mkdir(parents=True, mode=0o700)
        except BaseException:
            remove_seat(seat)
            raise
    prepare_tree(seat, order.prepare)


def make_tree(seat: Seat, git: Git, commit: str) -> None:
    """The work tree of a seat. Steps find an index in it as after a checkout; what is published is
    found out with a copy of that, which knows what has not changed."""
    seat.tree.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    git.without("GIT_INDEX_FILE").output(
        "worktree", "add", "-q", "-B", seat.branch, str(seat.tree), commit,
        until=deadline_in(_CHECKOUT_S),
    )  # fmt: skip
    # When the references of this run are gone, the next one brings only what is new.
    git.output("update-ref", _WARM, commit)
    folder = git_folder(seat.tree)
    seat.indexes.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder is not None and (folder / "index").exists():
        copy_with_time(folder / "index", seat.indexes / "work")


def prepare_tree(seat: Seat, prepare: Sequence[str]) -> None:
    """What ignored files need: they do not travel."""
    if not prepare:
        return
    done = subprocess.run(
        prepare, cwd=seat.workspace, stdin=subprocess.DEVNULL, check=False, capture_output=True,
    )  # fmt: skip
    if done.returncode != 0:
        remove_seat(seat)
        told = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise ConfigError(
            f"`{shlex.join(prepare)}` (prepare) failed with exit code {done.returncode}",
            "\n".join(told[-5:]),
        )


def refuse_at_work(seat: Seat) -> None:
    """A seat with a run at work is not taken away."""
    if seat.name in at_work(Path(seat.root)):
        raise StateError(f"run {seat.run} is at work", f"orchestrate cancel {seat.run}")


def remove_seat(seat: Seat) -> None:
    """Remove a seat, its run folder and its references; what is published elsewhere stays."""
    git = _git(seat.repository)
    if seat.tree.exists():
        git.answers("worktree", "remove", "--force", str(seat.tree))
    git.answers("worktree", "prune")
    seen = "" if seat.item else f"refs/items/{seat.run}/"
    listed = git.output("for-each-ref", "--format=%(refname)", seen) if seen else b""
    for ref in (
        f"refs/heads/{seat.branch}",
        seat.work,
        seat.state,
        f"{seat.fetched}work",
        f"{seat.fetched}state",
        *listed.decode().split(),
    ):
        git.answers("update-ref", "-d", ref)
    for folder in (seat.states, seat.indexes):
        if folder.exists():
            delete_tree(folder.parent, folder.name)


def root_of(written: str) -> Path:
    """Where a pool's seats are; a relative path begins at the home folder."""
    return Path(os.path.abspath(os.path.join(os.path.expanduser("~"), os.path.expanduser(written))))


def at_work(root: Path) -> list[str]:
    """What holds a slot: not what is parked or over, nor a run that only waits for its items."""
    return [
        name
        for name, _, status in seated(root)
        if status == "running" and not (root / "states" / name / WAITS).exists()
    ]


def seated(root: Path) -> Iterator[tuple[str, Run, str]]:
    """Every run or item that has a seat here, with the seat's name and how it stands."""
    try:
        names = sorted(os.listdir(root / "states"))
    except FileNotFoundError:
        return
    for name in names:
        for run in list_runs(Runs(root / "states" / name)):
            yield name, run, summary_of(run).shown_status


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One seat is made at a time, so that a slot is not given away twice."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _git(repository: Path) -> Git:
    program = find_git(os.environ)
    if program is None:
        raise ConfigError("git is not installed", "a pool's machines need git")
    return own_git(program, repository)
