"""Reaches the process that works on a run, and ends what a killed one left running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.ending.claim import has_open, orchestrator_of
from orchestrate.app.ending.kept_programs import is_kept
from orchestrate.errors import ConfigError, KeeperSilent
from orchestrate.execute import local
from orchestrate.execute.liveness import keeper_pid

if TYPE_CHECKING:
    from orchestrate.state.locks import Owner
    from orchestrate.state.runs import Run

_POLL_S = 0.05


def ask_to_end(
    run: Run, owner: Owner, number: signal.Signals, verb: str, note: Callable[[str], None]
) -> None:
    """Send the orchestrator a signal; only a process of this host that has the run's lock."""
    if owner.host != os.uname().nodename:
        raise ConfigError(
            f"run {run.id} is worked on by {owner.describe()}", f"{verb} it on {owner.host}"
        )
    note(f"ending {owner.describe()}\n")
    try:
        handle = os.pidfd_open(owner.pid)
    except AttributeError:  # pragma: no cover - macOS has no such handles
        if has_open(owner.pid, run):
            os.kill(owner.pid, number)
        return
    except ProcessLookupError:
        return
    try:
        # Once more: the handle stands for one process, whatever becomes of its number.
        if has_open(owner.pid, run):
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ConfigError(
            f"run {run.id} belongs to another user: {owner.describe()}", f"ask them to {verb} it"
        ) from None
    finally:
        os.close(handle)


def await_end(run: Run, owner: Owner, give_up: float, note: Callable[[str], None]) -> None:
    """Wait until the orchestrator has ended; one that was stopped cannot, which is said at once."""
    was_told = False
    while orchestrator_of(run) is not None:
        is_frozen = is_standing_still(owner.pid)
        if is_frozen and not was_told:
            was_told = True
            note(f"process {owner.pid} is stopped; let it go on: kill -CONT {owner.pid}\n")
        if time.monotonic() >= give_up and is_frozen:
            raise ConfigError(
                f"run {run.id} has not ended yet: {owner.describe()} was told to end, "
                "but is stopped (Ctrl-Z, SIGSTOP) and cannot",
                f"let it go on, and it ends: kill -CONT {owner.pid}; "
                f"or kill -9 {owner.pid} and try once more",
            )
        if time.monotonic() >= give_up:
            raise ConfigError(
                f"run {run.id} has not ended yet: {owner.describe()} was told to end, "
                "and is still ending its programs",
                f"try again; if it hangs, kill -9 {owner.pid} and try once more",
            )
        time.sleep(_POLL_S)


def is_standing_still(pid: int) -> bool:
    """Was a process stopped, by SIGSTOP, Ctrl-Z or a debugger, so that it hears nothing?"""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def still_running(run: Run, again: str) -> ConfigError:
    """The orchestrator has ended, its programs have not: who is to end them, and what to do."""
    pid = keeper_pid(run.root)
    what = f"programs of run {run.id} still run"
    if pid is None:
        return ConfigError(f"{what}: its keeper has not ended them yet", f"try again: {again}")
    if not is_standing_still(pid):
        who = f"its keeper (process {pid}) has not ended them yet"
        return ConfigError(f"{what}: {who}", f"try again: {again}")
    return ConfigError(
        f"{what}: its keeper (process {pid}), which is to end them, is stopped (SIGSTOP)",
        f"let it go on: kill -CONT {pid}; then {again}",
    )


def end_programs(
    run: Run, reason: str, *, is_interrupted: bool, give_up: float, again: str
) -> bool:
    """End what the run's keeper runs without an orchestrator; True if there was a keeper.

    If that was killed too, a new one finds what its programs left behind and ends it. A keeper that
    does not answer is waited for until `give_up`; then `again` is the command to repeat.
    """
    was_kept = is_kept(run)
    if not was_kept and not (is_interrupted and local.may_have_programs(run.root)):
        return False

    def hurry_s() -> float | None:
        return None if time.monotonic() < give_up else 0.0

    try:
        local.end_programs(run.root, reason, hurry_s, run.id)
    except KeeperSilent:
        raise still_running(run, again) from None
    return was_kept and is_interrupted
