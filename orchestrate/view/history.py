"""A run retold from its journal in one pass: its sittings, its steps, its approvals, its path.

It reads as far as it can: behind damage, or where the definition has changed, it says what is
missing and goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.plan.nodes import FAILED, OK, target_of
from orchestrate.plan.trail import Trail
from orchestrate.record import field, mutable_record, replace
from orchestrate.state import events as on
from orchestrate.state.alike import Alike, pass_over, read_alike
from orchestrate.state.apply import apply, start
from orchestrate.state.events import Event
from orchestrate.state.gates import add_decision, add_opened, expire_asked, without_pending
from orchestrate.state.model import frames_below
from orchestrate.state.recorded import Recorded, read_events
from orchestrate.state.result import Approval
from orchestrate.state.times import seconds_of
from orchestrate.view.step_totals import Tallies

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Target
    from orchestrate.plan.trail import Mark, Trail
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run


@mutable_record
class Sitting:
    """A time in which one process worked on the run; `how` is '' while it does, or was killed."""

    start: float
    head: str = ""
    end: float | None = None
    end_head: str = ""
    how: str = ""
    reason: str = ""
    # The steps whose programs were at work when its process was killed.
    left: tuple[tuple[str, str], ...] = ()


@mutable_record
class Chronicle:
    """All of it. `trail` is None when the plan is not known."""

    started: on.RunStarted | None = None
    sittings: list[Sitting] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    tallies: Tallies = field(default_factory=Tallies)
    trail: Trail | None = None
    events: int = 0
    gaps: int = 0
    notes: list[str] = field(default_factory=list)


def read_chronicle(run: Run, index: Index | None, now: float, *, is_live: bool) -> Chronicle:
    """Read the journal once, from its beginning to its end or to its first damage."""
    history = History(run, index)
    history.read_on()
    return history.told(now, is_live=is_live)


class History:
    """What a journal has told so far; it can be read on from there, and asked at any time."""

    def __init__(self, run: Run, index: Index | None) -> None:
        # Another definition has come meanwhile, which `index` does not know.
        self.is_edited = False
        self._run = run
        self._index = index
        self._told = Chronicle()
        self._follower = _Follower(index) if index is not None else None
        self._is_damaged = False

    def read_on(self) -> None:
        """Whatever the journal has more than before, up to its first damage."""
        told, is_first = self._told, not self._told.events
        if self._is_damaged:
            return
        events = self._run.events
        news = read_alike(events, self._index) if is_first else read_events(events, told.events)
        try:
            for recorded in news:
                told.events = recorded.seq
                self._hear(recorded)
                is_edit = isinstance(recorded, Recorded) and isinstance(recorded.event, on.Edited)
                self.is_edited |= is_edit and not is_first
        except (OrchestrateError, ValueError) as error:
            why = error.message if isinstance(error, OrchestrateError) else f"{error!r}"
            told.notes.append(f"the journal can be read up to event {told.events} only: {why}")
            self._is_damaged = True

    def _hear(self, recorded: Recorded | Alike) -> None:
        if isinstance(recorded, Alike):
            self._told.tallies.hear_alike(recorded)
            if self._follower is not None:
                self._follower.hear_alike(recorded)
            return
        _hear(self._told, recorded.event)
        if self._follower is not None:
            self._follower.hear(recorded.event)

    def told(self, now: float, *, is_live: bool) -> Chronicle:
        """All of it as of now, apart from what is read later."""
        so_far = self._told
        told = replace(
            so_far,
            sittings=[replace(sitting) for sitting in so_far.sittings],
            approvals=list(so_far.approvals),
            tallies=so_far.tallies.copied(),
            notes=list(so_far.notes),
        )
        told.tallies.close(now, is_live=is_live)
        if self._follower is not None:
            told.trail = self._follower.marked(is_live=is_live)
            told.notes += self._follower.notes
        if told.gaps:
            told.notes.append(f"{told.gaps} events were lost to damage before a `resume --repair`")
        return told


def _hear(told: Chronicle, event: Event) -> None:
    match event:
        case on.RunStarted():
            told.started = event
            told.sittings.append(Sitting(event.at, event.head))
        case on.RunResumed():
            if told.sittings and told.sittings[-1].end is None:
                told.sittings[-1].end = told.tallies.last_at
                told.sittings[-1].left = told.tallies.at_work
            told.sittings.append(Sitting(event.at, event.head))
        case on.RunEnded():
            _end_sitting(told, event)
        case on.GateOpened():
            add_opened(told.approvals, event)
        case on.GateDecided():
            add_decision(told.approvals, event)
        case on.Gap():
            told.gaps += 1
        case on.AttemptEnded() | on.StepFinished():
            _stretch_sitting(told, event)
        case on.StepStarted() | on.SessionSeen():
            pass
        case on.SessionChosen() | on.RoundEnded() | on.OutputsGiven():
            pass
        case on.CallExpired():
            expire_asked(told.approvals, event)
        case (
            on.LoopOpened() | on.ItemMoving() | on.ItemsMerged() | on.ItemMoved() | on.ItemStopped()
        ):
            pass
        case on.CallOpened() | on.Restarted():
            pass
        case on.CostReserved() | on.LimitNear() | on.CallWaits() | on.Checkpointed():
            pass
        case on.Edited():
            told.approvals = without_pending(told.approvals)
    told.tallies.hear(event)


def _stretch_sitting(told: Chronicle, event: on.AttemptEnded | on.StepFinished) -> None:
    """A program that outlived its orchestrator was at work until it ended or was adopted."""
    if len(told.sittings) < 2:
        return
    killed, adopting = told.sittings[-2:]
    if (event.frame, event.node) not in killed.left:
        return
    ended = event.result.completed_at
    if ended and not (isinstance(event, on.AttemptEnded) and event.why == "lost"):
        killed.end = max(killed.end or 0.0, min(seconds_of(ended), adopting.start))


def _end_sitting(told: Chronicle, event: on.RunEnded) -> None:
    """A decision or a cancellation after the end of a sitting tells its end anew."""
    if not told.sittings:
        return
    sitting = told.sittings[-1]
    if sitting.end is None:
        sitting.end = event.at
        sitting.end_head = event.head
    sitting.how, sitting.reason = event.status, event.reason


class _Follower:
    """Folds the events into a state, as the engine does, and keeps the path that it takes."""

    def __init__(self, index: Index) -> None:
        self.trail = Trail()
        self.notes: list[str] = []
        self._index = index
        self._state: RunState | None = None
        self._is_lost = False
        # Steps whose failure counts, though the run went on.
        self._failures: set[tuple[str, str]] = set()
        index.hear_move = self._move

    def _move(self, plan: str, node: str, label: str, target: Target) -> None:
        self.trail.move(plan, node, label, target)
        if label == FAILED and self._index.place(plan, node).node.on_failure == "count":
            self._failures.add((plan, node))

    def hear(self, event: Event) -> None:
        if self._is_lost:
            return
        with self._losing_the_way():
            self._follow(event)

    def hear_alike(self, alike: Alike) -> None:
        if self._is_lost or self._state is None:
            return
        with self._losing_the_way():
            plan = pass_over(self._index, self._state, alike)
            for node, times in alike.steps.items():
                target = target_of(self._index.place(plan, node).node, OK)
                self.trail.visit(plan, node, len(times))
                self.trail.move(plan, node, OK, target, len(times))

    @contextmanager
    def _losing_the_way(self) -> Iterator[None]:
        try:
            yield
        except (OrchestrateError, ValueError, KeyError, AssertionError) as error:
            self._is_lost = True
            why = error.message if isinstance(error, OrchestrateError) else f"{error!r}"
            self.notes.append(f"the path through the plan is shown in part only: {why}")

    def _follow(self, event: Event) -> None:
        state = self._state
        if isinstance(event, on.RunStarted):
            self._state = start(self._index, event)
            self.trail.begin(event.plan)
        if state is None:
            return
        match event:
            case (
                on.StepStarted()
                | on.LoopOpened()
                | on.CallOpened()
                | on.GateOpened()
                | on.StepFinished()
            ):
                frame = state.frames[event.frame]
                here = frame.here
                is_first = here is not None and not here.since and here.phase == "arriving"
                is_skipped = isinstance(event, on.StepFinished) and event.label == "@skipped"
                if is_first and not is_skipped:
                    self.trail.visit(frame.plan, event.node)
                if isinstance(event, on.CallOpened):
                    self.trail.begin(event.plan)
            case on.Restarted():
                self.trail.begin(event.plan)
            case on.Edited():
                self.trail = Trail()
                self.trail.begin(event.plan)
                self._failures.clear()
            case on.AttemptEnded() | on.SessionSeen() | on.SessionChosen() | on.CallExpired():
                pass
            case on.GateDecided():
                pass
            case (
                on.ItemMoving()
                | on.ItemsMerged()
                | on.ItemMoved()
                | on.ItemStopped()
                | on.RunResumed()
            ):
                pass
            case on.RunEnded() | on.Gap() | on.RoundEnded() | on.OutputsGiven():
                pass
            case on.CostReserved() | on.LimitNear() | on.CallWaits() | on.Checkpointed():
                pass
            case on.RunStarted():
                return
        apply(self._index, state, event)

    def marked(self, *, is_live: bool) -> Trail:
        """The path, with where the run stands now or what has stopped it."""
        trail = self.trail.copied()
        state = self._state
        if state is None or state.status == "completed":
            return trail
        has_failed = state.status == "failed"
        if has_failed and state.has_failures and state.root.here is None:
            trail.failed_at_end = state.reason or "some steps failed"
        if has_failed:
            for place in self._failures:
                trail.marks[place] = "failed"
        for frame in frames_below(state.root):
            here = frame.here
            if here is None or here.phase == "open":
                continue
            mark: Mark = "at work" if is_live else "waiting"
            # A guardrail lets a step not even begin.
            if here.phase == "failed" or (has_failed and here.phase == "arriving"):
                mark = "failed"
            elif here.phase in ("asking", "resting", "lost"):
                mark = "waiting"
            trail.marks[frame.plan, here.node] = mark
        return trail
