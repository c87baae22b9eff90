"""Whether programs of a run still run on this machine, asked from outside the run.

Nothing here starts or wakes anything: the answers come from locks and from the keeper's journal.
"""

from __future__ import annotations

from pathlib import Path

from orchestrate.execute.keeper.facts import are_wardens_left
from orchestrate.execute.keeper.journal import attempts_in
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    JOURNAL,
    KEEPER_LOCK,
    is_locked,
    lock_holder,
)


def is_keeper_alive(run_dir: Path) -> bool:
    """May programs of this run still be running? Its keeper lives, or is ending a program."""
    folder = run_dir / FOLDER
    return is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder)


def attempts_at_work(run_dir: Path) -> set[str]:
    """The attempts whose programs run, or are just being ended, whatever the run knows of them."""
    # First: where nothing is left that could record an end, what the journal says is final.
    if not is_keeper_alive(run_dir):
        return set()
    claimed, settled = attempts_in(str(run_dir / FOLDER / JOURNAL))
    return claimed - settled


def keeper_pid(run_dir: Path) -> int | None:
    """The process that runs the run's programs, where the kernel tells."""
    try:
        return lock_holder(str(run_dir / FOLDER / KEEPER_LOCK))
    except OSError:
        return None
