"""The event that the workspace of a run was captured."""

from __future__ import annotations

from typing import Any

from orchestrate.record import field, record

Json = Any


@record
class Checkpointed:
    """The workspace was captured (`checkpoints/`), or could not be: `fault` says why.

    `steps` are those whose files it tells, more than one where they share it. `changes` are kinds
    and paths since the checkpoint before it, at most so many; `more` counts the others.
    """

    at: float
    checkpoint: dict[str, Json]
    steps: list[str] = field(default_factory=list)
    changes: list[list[str]] = field(default_factory=list)
    more: int = 0
    fault: str = ""
    # Files were put back (`rewind`): the safety checkpoint from before; or that was taken back.
    undoes: dict[str, Json] = field(default_factory=dict)
    is_undo: bool = False
