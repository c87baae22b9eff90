"""A mark in a run's folder while `cancel` waits for the run's process to end."""

from __future__ import annotations

from orchestrate.state.durable import write_visibly
from orchestrate.state.runs import Run

_CANCELLING = "cancelling"


def announce_cancelling(run: Run) -> None:
    """Let the process that works on a run know that its end will be for good."""
    write_visibly(run.root / _CANCELLING, b"")


def forget_cancelling(run: Run) -> None:
    (run.root / _CANCELLING).unlink(missing_ok=True)


def is_cancelling(run: Run) -> bool:
    return (run.root / _CANCELLING).exists()
