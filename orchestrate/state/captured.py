"""What a checkpoint of the workspace changes in a run's state: which files each step changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from orchestrate.state.address import Address
from orchestrate.state.events import Checkpointed
from orchestrate.state.model import RunState
from orchestrate.state.result import StepResult

# So many names stand in a step's result; the journal has more of them, the store all.
_MOST_NAMES = 20


def keep_checkpoint(state: RunState, event: Checkpointed) -> None:
    """Note the newest checkpoint, and with the steps that it is about what they changed."""
    if event.checkpoint:
        state.checkpoint = event.checkpoint
    told = changed_by(event)
    for text in event.steps:
        address = Address.parse(text)
        frame = state.frames.get(address.frame.text)
        if frame is not None and address.name in frame.steps:
            result = frame.steps[address.name]
            frame.steps[address.name] = result | StepResult(changed=told)


def changed_by(event: Checkpointed) -> dict[str, Any]:
    """For a step's result: how many files of each kind, and the first of their names."""
    counts = Counter(kind for kind, _ in event.changes)
    told: dict[str, Any] = {"files": len(event.changes) + event.more, **counts}
    told["names"] = [path for _, path in event.changes[:_MOST_NAMES]]
    if len(event.steps) > 1:
        told["shared"] = len(event.steps)
    # Pipes and sockets have nothing that a step could have changed.
    left_out = [o["path"] for o in event.checkpoint.get("left_out", ()) if not o["special"]]
    if left_out:
        told["left_out"] = left_out[:_MOST_NAMES]
    if event.fault:
        return {"files": None, "fault": event.fault}
    return told
