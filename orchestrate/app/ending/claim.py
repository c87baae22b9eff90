"""Takes a run's lock for a moment, and tells apart those who hold it for long and for a moment.

`run` and `resume` hold a run's lock for as long as they work. The commands here (`approve`, `deny`,
`cancel`, `stop`, `clean`) need it for an instant: two of them at once wait for each other, and
`resume` waits for them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrate.errors import ConfigError
from orchestrate.state.locks import LockHeldError, Owner, is_held, read_owner
from orchestrate.state.runs import claim_run

if TYPE_CHECKING:
    from orchestrate.state.locks import Lock
    from orchestrate.state.runs import Run

# How `claim_briefly` and `clean` sign; `run` and `resume` sign with their whole command line.
_BRIEF = tuple(f"orchestrate {verb}" for verb in ("approv", "cancel", "clean", "deny", "stop"))
_PATIENCE_S = 5.0
_POLL_S = 0.02


class AtWorkError(ConfigError):
    """An orchestrator works on the run; `owner` is its process."""

    def __init__(self, run: Run, owner: Owner) -> None:
        super().__init__(
            f"run {run.id} is in use by {owner.describe()}", "wait until it ends, or cancel it"
        )
        self.owner = owner


def claim_briefly(run: Run, verb: str) -> Lock:
    """The run's lock, for an instant."""
    return claim_patiently(run, ("orchestrate", verb, run.id))


def claim_patiently(run: Run, command: Sequence[str]) -> Lock:
    """The run's lock, as soon as those have gone who need it for an instant; `AtWorkError` if an
    orchestrator has it."""
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return claim_run(run, command)
        except LockHeldError:
            owner = orchestrator_of(run)
            if owner is not None:
                raise AtWorkError(run, owner) from None
            if time.monotonic() >= give_up:
                raise
        time.sleep(_POLL_S)


def orchestrator_of(run: Run) -> Owner | None:
    """The process that works on the run; None if no process does, or only for a moment.

    The name of an owner is written after its lock is taken, so a name counts only if its process
    has the lock file open.
    """
    owner = read_owner(run.lock_file)
    if owner is None or not is_held(run.lock_file):
        return None
    if owner.command.startswith(_BRIEF):
        return None
    if owner.host != os.uname().nodename:
        return owner
    return owner if has_open(owner.pid, run) else None


def has_open(pid: int, run: Run) -> bool:
    """Has a process the run's lock file open? Where that cannot be seen: does it live?"""
    folder = f"/proc/{pid}/fd"
    try:
        wanted = os.stat(run.lock_file)
        if os.path.isdir("/proc/self/fd"):
            return any(_is_same(f"{folder}/{name}", wanted) for name in os.listdir(folder))
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _is_same(link: str, wanted: os.stat_result) -> bool:
    try:
        found = os.stat(link)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
