"""The keeper of a trial's run, found from outside, and ways to end it."""

from __future__ import annotations

import os
import socket
import struct
import time

from tests.promises.processes import keepers_in, kill
from tests.promises.trials import Trial

_CREDENTIALS = struct.Struct("3i")


def keeper_of(trial: Trial) -> int | None:
    """The process that listens at the run's socket; nobody is told that we asked."""
    roots = trial.roots()
    if not roots:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            # The kernel limits the length of a socket's path; through the descriptor any fits.
            folder = os.open(roots[0] / "keeper", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        try:
            line.connect(f"/proc/self/fd/{folder}/socket")
        except OSError:
            return None
        finally:
            os.close(folder)
        told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(told)[0]
    return pid


def await_keeper(trial: Trial, seconds: float = 120.0) -> int:
    give_up = time.monotonic() + seconds
    while (pid := keeper_of(trial)) is None:
        assert time.monotonic() < give_up, "no keeper came"
        time.sleep(0.002)
    return pid


def kill_keeper(trial: Trial) -> None:
    pid = keeper_of(trial)
    if pid is not None:
        kill(pid)


def kill_its_company(trial: Trial) -> None:
    """Whoever helps the keeper, but not itself: its guardian and its wardens.

    Seen twice: a program looks like its keeper until it has taken over.
    """
    keeper = keeper_of(trial)
    seen = keepers_in(trial.top)
    time.sleep(0.01)
    for pid in keepers_in(trial.top):
        if pid in seen and pid != keeper:
            kill(pid)


def kill_keeper_and_company(trial: Trial) -> None:
    """Looked for first and killed then, so that none can end anything because another is gone."""
    for pid in keepers_in(trial.top):
        kill(pid)
