"""A run that is being watched: this process's own (`Store`) or another's (`Follower`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run

Seen = TypeVar("Seen")


class WatchedRun(Protocol):
    """What those who show a run may ask it."""

    @property
    def run(self) -> Run: ...

    @property
    def index(self) -> Index: ...

    @property
    def state(self) -> RunState: ...

    def look(self, reader: Callable[[RunState], Seen]) -> Seen:
        """What a reader in another thread makes of the state, which stands still meanwhile."""
