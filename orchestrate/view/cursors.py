"""The steps at the cursors of a run's frames: at work, waiting, or what has stopped the run."""

from __future__ import annotations

from orchestrate.record import record
from orchestrate.state.address import Address, address_of, name_in_block
from orchestrate.state.durable import parse_json
from orchestrate.state.model import Frame, Loop, RunState, Visit, frames_below
from orchestrate.state.pending_call import Postponed
from orchestrate.state.result import StepResult


@record
class Cursor:
    """A step that is being worked on, waits, or has stopped the run.

    `path` is how people name it, `Loop[3]/Step`; `phase` is one of `state.model.Phase`; `since` is
    when its newest attempt began, else its visit; `result` is what is recorded of it so far.
    """

    frame: str
    name: str
    visit: int
    phase: str
    attempt: int
    since: float
    rest_until: float
    result: StepResult
    # What its call waits for, if it does.
    waits: Postponed

    @property
    def path(self) -> str:
        return self.address.step.shown

    @property
    def address(self) -> Address:
        return address_of(self.frame, self.name, self.visit, self.attempt)


def cursors_in(state: RunState) -> list[Cursor]:
    """The innermost steps at the cursors, in the order of the frames; none in a run that ended."""
    return [
        _cursor(frame, frame.here)
        for frame in frames_below(state.root)
        if frame.here is not None and frame.here.phase != "open"
    ]


def failed_items(loop: Loop) -> list[int]:
    """The items that have failed: those that are over, and those that have stopped the run."""
    stopped = [
        position
        for position, item in loop.open.items()
        if any(frame.here and frame.here.phase == "failed" for frame in frames_below(item))
    ]
    return sorted({*loop.failed, *stopped})


def put_aside(state: RunState) -> list[tuple[Loop, int, str]]:
    """The items that have failed and whose files were moved, and where to: nothing is left there
    to be tried again, and their loop can only go on behind them."""
    found = []
    for frame in frames_below(state.root):
        loop = frame.loops.get(frame.here.node) if frame.here is not None else None
        if frame.here is None or frame.here.phase != "failed" or loop is None or loop.is_closed:
            continue
        for index in loop.failed:
            lifecycle = parse_json(loop.done[index]).get("lifecycle") or {}
            if lifecycle.get("action_applied"):
                found.append((loop, index, str(lifecycle["to"])))
    return found


def _cursor(frame: Frame, here: Visit) -> Cursor:
    name = name_in_block(here.node, frame.block)
    key, visit = here.origin or (frame.key, here.visit)
    return Cursor(
        key, name, visit, here.phase, here.attempt,
        here.attempt_since or here.since, here.rest_until, frame.steps.get(name, StepResult()),
        here.waits,
    )  # fmt: skip
