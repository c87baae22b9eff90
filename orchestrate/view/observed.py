"""A run as it is told about: one's own (`Store`), or that of another process (`Follower`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run

Seen = TypeVar("Seen")


class Told(Protocol):
    """What whoever tells about a run may ask it."""

    @property
    def run(self) -> Run: ...

    @property
    def index(self) -> Index: ...

    @property
    def state(self) -> RunState: ...

    def look(self, reader: Callable[[RunState], Seen]) -> Seen:
        """What a reader in another thread makes of the state, which stands still meanwhile."""
