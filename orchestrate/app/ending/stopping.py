"""Lets a signal end in good order what a command does with a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrate.engine.stop import Stop, listening

__all__ = ["Stop", "stoppable"]


@contextmanager
def stoppable() -> Iterator[Stop]:
    """From here on a signal stops a run in good order, also one that is just being made."""
    stop = Stop()
    try:
        with listening(stop):
            yield stop
    finally:
        stop.close()
