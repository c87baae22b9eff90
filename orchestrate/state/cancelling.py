"""A mark in a run's folder while `cancel` waits for the run's process to end."""

from __future__ import annotations

import os

from orchestrate.errors import explain
from orchestrate.state.runs import Run

_CANCELLING = "cancelling"


def announce_cancelling(run: Run) -> None:
    """Let the process that works on a run know that its end will be for good."""
    mark = run.root / _CANCELLING
    try:
        # Made in place: the holder of the run's lock removes half-written files beside it.
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise explain("write", mark, error) from error


def forget_cancelling(run: Run) -> None:
    (run.root / _CANCELLING).unlink(missing_ok=True)


def is_cancelling(run: Run) -> bool:
    return (run.root / _CANCELLING).exists()
