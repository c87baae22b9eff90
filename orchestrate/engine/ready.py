"""What may happen next: reads the state, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from orchestrate.record import record
from orchestrate.state.model import Frame, RunState, open_loop

# step   perform the step at the cursor      move  an item's file, or on to another round
# drop   end an item that another one's failure has made useless
# merge  what items that other machines had taken have changed
# away   follow an item there
# ask    a gate wants a decision             rest  a retry whose time has not come
# lost   only a person can let the step begin again
Kind = Literal["step", "move", "drop", "ask", "rest", "lost", "merge", "away"]


@record
class Task:
    """Something to do at a frame. `due` is when, for a rest."""

    kind: Kind
    frame: Frame
    due: float = 0.0


def ready(state: RunState, item: str = "") -> list[Task]:
    """Everything that may be done now, or later at a known time; nothing if the run is ending.

    With `item` only what belongs to that frame.
    """
    if state.ending is not None or state.restart is not None:
        return []
    frame = state.frames.get(item) if item else state.root
    return [] if frame is None else list(_tasks(frame, is_stopping=False))


def _tasks(frame: Frame, *, is_stopping: bool) -> Iterator[Task]:
    here = frame.here
    if here is None:
        return
    match here.phase:
        case "open":
            loop = open_loop(frame)
            if (frame.call is not None and frame.call.merges) or (loop and loop.label):
                yield Task("drop", _item_of(frame)) if is_stopping else Task("merge", frame)
                return
            if frame.call is not None:
                yield from _tasks(frame.call, is_stopping=is_stopping)
                return
            if loop is not None:
                for inner in loop.open.values():
                    yield from _tasks(inner, is_stopping=is_stopping or loop.is_stopping)
        case "leaving":
            yield Task("move", frame)
        case "failed":
            return
        case "arriving" | "running" | "resting" | "asking" | "lost" if is_stopping:
            yield Task("drop", _item_of(frame))
        case "arriving" | "running":
            yield Task("step", frame)
        case "resting":
            yield Task("rest", frame, here.rest_until)
        case "asking":
            yield Task("ask", frame)
        case "lost":
            yield Task("lost", frame)


def _item_of(frame: Frame) -> Frame:
    """The iteration that a frame belongs to; a call inside it ends with it."""
    while not frame.is_iteration and frame.parent is not None:
        frame = frame.parent
    return frame
