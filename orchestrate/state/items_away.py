"""Which frames are items of a loop that has failed already, or that another machine has taken."""

from __future__ import annotations

from orchestrate.state.model import Frame, RunState, frames_below, open_loop


def given_away(frame: Frame | None) -> Frame | None:
    """The item around a frame that a machine of the fleet takes, or the call."""
    while frame is not None:
        if pool_of(frame):
            return frame
        frame = frame.parent
    return None


def pool_of(frame: Frame) -> str:
    """The pool that takes an item, '' if it stays here."""
    if frame.is_iteration and frame.parent is not None:
        loop = open_loop(frame.parent)
        return loop.spread if loop is not None else ""
    return frame.spread


def items_of(state: RunState) -> list[str]:
    """The items that other machines may have."""
    return [frame.key for frame in frames_below(state.root) if pool_of(frame)]


def is_in_stopping_loop(frame: Frame) -> bool:
    """Has another item of a loop around the frame failed, so that it matters no more?"""
    inner: Frame | None = frame
    while inner is not None:
        outer = inner.parent
        if outer is not None and inner.is_iteration and outer.here is not None:
            loop = outer.loops.get(outer.here.node)
            if loop is not None and loop.is_stopping:
                return True
        inner = outer
    return False
