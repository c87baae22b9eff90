"""Attempts that were lost: tried again twice with growing pauses, then a person decides."""

from __future__ import annotations

from orchestrate.engine.step import Step
from orchestrate.execute.base import Lost
from orchestrate.exits import STEP_FAILED
from orchestrate.state.address import FrameKey
from orchestrate.state.events import AttemptEnded
from orchestrate.state.model import Frame, Index
from orchestrate.state.result import StepError, StepResult

# Before the second attempt in a row, and before the third.
PAUSES_S = (1.0, 5.0)


def lost(step: Step, ended: Lost, more: StepResult) -> AttemptEnded:
    """How it ended is unknown, but it is over: a new attempt, or a person decides."""
    message = f"attempt {step.attempt} was lost: {ended.reason}"
    error = StepError(message=message, exit_code=STEP_FAILED)
    result = step.result("failed", None, StepResult(error=error) | more)
    if step.attempt_id in step.rt.inherited_losses:
        # It was lost before this sitting, which begins a new count.
        losses, pause = 0, 0.0
    else:
        losses = step.here.losses + 1
        pause = 0.0 if losses > len(PAUSES_S) else PAUSES_S[losses - 1]
    if step.node.on_lost == "stop" or losses > len(PAUSES_S):
        return step.ended("lost", result, losses=losses, waits=True)
    return step.ended("lost", result, pause, losses=losses)


def name_lost(index: Index, frame: Frame) -> str:
    """Why a step waits for a person, in words."""
    node = index.here(frame).node
    assert frame.here is not None
    path = FrameKey.parse(frame.key).step(node.name).shown
    if node.effect:
        how = {"stopped": "was stopped half-way", "void": "has left no whole result"}
        what = how.get(frame.steps[node.name].last_attempt or "", "was lost")
        return (
            f"step '{path}' has an effect and {what}: look whether it has happened; "
            "resume starts it anew"
        )
    if node.on_lost == "stop":
        return f"step '{path}' was lost; resume starts it anew"
    return f"step '{path}' was lost {frame.here.losses} times in a row; resume starts it anew"
