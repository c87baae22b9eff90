"""When the workspace is recorded: after each agent, after commands at most once a second, before an
agent, a gate or the end in any case, and never while a program of the run is at work.

Steps that end without a checkpoint of their own share the next one. What runs in a parallel loop
shares that of the loop.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from orchestrate.checkpoints.model import (
    Change,
    Checkpoint,
    CheckpointError,
    checkpoint_from_json,
    checkpoint_to_json,
    known_changes,
)
from orchestrate.checkpoints.store import Store
from orchestrate.engine.ready import Task
from orchestrate.engine.runtime import Runtime
from orchestrate.plan.nodes import SKIPPED, Ask, Each, Gate, Run
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.address import Address, FrameKey
from orchestrate.state.captured import changed_by
from orchestrate.state.events import Checkpointed, Event, StepFinished, attempt_of
from orchestrate.state.model import Frame, frames_below
from orchestrate.state.result import StepResult

# Commands share a checkpoint within this time.
_BETWEEN_S = 1.0
# Checkpoints may take this share of the run's time, beyond the first seconds that they need.
_SHARE = 0.05
_FREE_S = 2.0
# So many names are put on record; the store has all.
_MOST_CHANGES = 200


class Checkpoints:
    """Records the workspace of one run; events say what was recorded."""

    def __init__(self, rt: Runtime, store: Store, tell: Callable[[str], None]) -> None:
        self._rt = rt
        self._store = store
        self._tell = tell
        self._told = ""
        self._tree = str(rt.store.state.checkpoint.get("tree", ""))
        # Steps that have ended since the last checkpoint.
        self._pending: list[str] = []
        self._began = self._taken_at = time.monotonic()
        self._spent_s = 0.0

    def begin(self) -> list[Event]:
        """How the workspace is before the first step, or before this sitting goes on.

        Where a step of the last sitting is still open, what it has changed is told with its end.
        """
        frames = frames_below(self._rt.store.state.root)
        is_open = any(frame.here is not None and frame.here.phase == "running" for frame in frames)
        return [] if self._tree and is_open else [*self._take()]

    def note(self, events: Sequence[Event], *, is_quiet: bool) -> list[Event]:
        """The events of a step that has ended; an agent's with its own checkpoint before them.

        `is_quiet`: nothing else is at work.
        """
        done = [event for event in events if isinstance(event, StepFinished)]
        ended = [event for event in done if self._may_have_changed(event)]
        if not ended:
            return [*events]
        frame = self._rt.store.state.frames[ended[0].frame]
        loop = _parallel_loop(self._rt, frame)
        visits = [replace(attempt_of(event), attempt=None) for event in ended]
        texts = [one.text for one in (visits if loop is None else [loop])]
        self._pending += [text for text in texts if text not in self._pending]
        is_agent = isinstance(self._rt.store.index.here(frame).node.op, Ask)
        if not is_agent or loop is not None or not is_quiet or not self._may_spend():
            return [*events]
        taken = self._take()
        told = StepResult(changed=changed_by(taken[0]))
        return [
            *taken,
            *(replace(e, result=e.result | told) if e in ended else e for e in events),
        ]

    def before(self, tasks: Iterable[Task], *, is_over: bool) -> list[Event]:
        """The checkpoint that what comes next asks for, if one is owed."""
        if not self._pending:
            return []
        index = self._rt.store.index
        if not is_over:
            frames = [task.frame for task in tasks]
            if any(_parallel_loop(self._rt, frame) is not None for frame in frames):
                return []
            ops = [index.here(frame).node.op for frame in frames if frame.here is not None]
            is_needed = any(isinstance(op, Ask | Gate) for op in ops)
            is_time = time.monotonic() - self._taken_at >= _BETWEEN_S and self._may_spend()
            if not (is_needed or is_time):
                return []
        elif self._rt.stop.is_urgent:
            return []
        return [*self._take()]

    def owe(self, address: Address) -> None:
        """Something has changed that is on record with this step."""
        self._pending.append(address.text)

    def wants_quiet(self) -> bool:
        """Is a checkpoint due once the step has ended? Then no program is sent ahead of it."""
        return time.monotonic() - self._taken_at >= _BETWEEN_S and self._may_spend()

    def close(self) -> None:
        self._store.close()

    def _may_have_changed(self, event: StepFinished) -> bool:
        if event.label == SKIPPED or event.result.reused:
            return False
        frame = self._rt.store.state.frames.get(event.frame)
        if frame is None or frame.here is None:
            return False
        return isinstance(self._rt.store.index.here(frame).node.op, Ask | Run)

    def _may_spend(self) -> bool:
        return self._spent_s <= _FREE_S + _SHARE * (time.monotonic() - self._began)

    def _tell_fault(self, fault: str) -> None:
        """Say why a checkpoint is missing, once as long as it is the same."""
        if fault != self._told:
            self._tell(
                f"orchestrate: no checkpoint of the workspace: {visible(fault)}; "
                "`rewind` and `diff` will not know the files\n"
            )
        self._told = fault

    def _take(self) -> list[Checkpointed]:
        """One checkpoint, as an event; none if nothing is new and no step asks."""
        rt = self._rt
        before, cpu_s = time.monotonic(), _cpu_s()
        steps, self._pending = self._pending, []
        try:
            taken = self._store.capture(rt.workspace.root, rt.environment)
        except CheckpointError as error:
            self._spent_s += time.monotonic() - before
            self._taken_at = time.monotonic()
            self._tell_fault(error.message)
            return [Checkpointed(rt.now(), {}, steps, fault=error.message)]
        changes = self._changed_to(taken)
        self._spent_s += _cpu_s() - cpu_s
        self._taken_at = time.monotonic()
        self._tree = taken.tree
        shown = [[change.kind, change.path] for change in changes[:_MOST_CHANGES]]
        more = len(changes) - len(shown)
        return [Checkpointed(rt.now(), checkpoint_to_json(taken), steps, shown, more)]

    def _changed_to(self, taken: Checkpoint) -> list[Change]:
        """What is otherwise than at the last checkpoint, if there is one; a person may have
        removed it."""
        if not self._tree:
            return []
        last = checkpoint_from_json(self._rt.store.state.checkpoint)
        with suppress(CheckpointError):
            return known_changes(self._store.changes(self._tree, taken.tree), last, taken)
        return []


def _cpu_s() -> float:
    """What this process and the programs that it has waited for have worked."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def _parallel_loop(rt: Runtime, frame: Frame) -> Address | None:
    """The outermost parallel loop that a frame is part of."""
    found = None
    inner: Frame | None = frame
    while inner is not None:
        outer = inner.parent
        if outer is not None and inner.is_iteration and outer.here is not None:
            node = rt.store.index.here(outer).node
            if isinstance(node.op, Each) and node.op.parallel:
                found = Address(FrameKey.parse(outer.key), node.name, outer.here.visit)
        inner = outer
    return found
