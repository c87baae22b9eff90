"""The cursor of a frame: where it stands, and what counts once a step has really begun."""

from __future__ import annotations

from typing import Any

from orchestrate.errors import StateError, repair_hint
from orchestrate.plan.nodes import Node
from orchestrate.state.model import Frame, Index, RunState, Visit, open_loop, plan_frame


class Fold:
    """What every rule below needs: the plans, the state, and when it happens."""

    __slots__ = ("at", "index", "state")

    def __init__(self, index: Index, state: RunState, at: float) -> None:
        self.index = index
        self.state = state
        self.at = at


def frame_of(state: RunState, key: str) -> Frame:
    frame = state.frames.get(key)
    if frame is None:
        raise StateError(
            f"the journal does not fit the state: there is no frame '{key}'",
            repair_hint(state.run_id),
        )
    return frame


def here_of(frame: Frame, node: str, visit: int) -> Visit:
    here = frame.here
    if here is None or here.node != node or here.visit != visit:
        at = "nowhere" if here is None else f"visit {here.visit} of '{here.node}'"
        raise StateError(
            f"the journal does not fit the state: visit {visit} of '{node}', but it is at {at}"
        )
    return here


def arrive(frame: Frame, node_id: str) -> None:
    frame.here = Visit(node_id, frame.visits.get(node_id, 0) + 1)


def begin_visit(
    state: RunState, frame: Frame, here: Visit, at: float, part_of: str | None = None
) -> None:
    """A visit has really begun: it counts from now on, unless it is a round of another step."""
    if not here.since:
        here.since = at
        frame.visits[here.node] = here.visit
        if part_of is None:
            count_step(state, frame, 1)
        if frame.parent is None:
            state.current = part_of or here.node
            state.retry_counts.pop(here.node, None)


def count_step(state: RunState, frame: Frame, number: int) -> None:
    state.steps_run += number
    plan: Frame | None = plan_frame(frame)
    while plan is not None:
        plan.count += number
        plan = plan_frame(plan.parent) if plan.parent is not None else None


def keep_value(frame: Frame, node: Node, value: Any) -> None:
    """A result becomes a variable of the plan; in an iteration also the item's value."""
    if frame.is_iteration and frame.parent is not None:
        loop = open_loop(frame.parent)
        if loop is not None and frame.index is not None:
            loop.values[frame.index] = value
    if node.output is not None:
        plan_frame(frame).variables[node.output] = value
