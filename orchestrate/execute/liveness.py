"""Whether programs of a run still run on this machine, asked from outside the run.

Nothing here starts or wakes anything: the answers come from locks and from the keeper's journal.
"""

from __future__ import annotations

from pathlib import Path

from orchestrate.execute.base import Running
from orchestrate.execute.keeper.facts import are_wardens_left, look
from orchestrate.execute.keeper.protocol import FOLDER, KEEPER_LOCK, is_locked, lock_holder


def is_keeper_alive(run_dir: Path) -> bool:
    """May programs of this run still be running? Its keeper lives, or is ending a program."""
    folder = run_dir / FOLDER
    return is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder)


def is_running(run_dir: Path, attempt: str) -> bool:
    """Does this very program run, or is it just being ended?"""
    return isinstance(look(run_dir, attempt), Running)


def keeper_pid(run_dir: Path) -> int | None:
    """The process that runs the run's programs, where the kernel tells."""
    try:
        return lock_holder(str(run_dir / FOLDER / KEEPER_LOCK))
    except OSError:
        return None
