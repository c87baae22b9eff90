"""A run retold from its journal in one pass: its sittings, its steps, its approvals, its path.

It reads as far as it can: behind damage, or where the definition has changed, it says what is
missing and goes on with the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.errors import OrchestrateError
from orchestrate.record import field, mutable_record
from orchestrate.view.step_totals import Tallies

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Target
    from orchestrate.plan.trail import Mark, Trail
    from orchestrate.state.model import Index, RunState
    from orchestrate.state.runs import Run

Json = dict[str, Any]


@mutable_record
class Sitting:
    """A time in which one process worked on the run; `how` is '' while it does, or was killed."""

    start: float
    head: str = ""
    end: float | None = None
    end_head: str = ""
    how: str = ""
    reason: str = ""


@mutable_record
class Approval:
    """A gate that was reached. `decided_at` None: it waits."""

    stage: str
    prompt: str
    asked_at: float
    expires_at: float | None = None
    default: str = ""
    decision: str = ""
    by: str = ""
    message: str = ""
    decided_at: float | None = None


@mutable_record
class Chronicle:
    """All of it. `trail` is None when the plan is not known."""

    started: Json = field(default_factory=dict)
    sittings: list[Sitting] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    tallies: Tallies = field(default_factory=Tallies)
    trail: Trail | None = None
    events: int = 0
    gaps: int = 0
    notes: list[str] = field(default_factory=list)


def read_chronicle(run: Run, index: Index | None, now: float, *, is_live: bool) -> Chronicle:
    """Read the journal once, from its beginning to its end or to its first damage."""
    from orchestrate.state.journal import read_tail

    told = Chronicle()
    waiting: dict[tuple[str, str, int], Approval] = {}
    follower = _Follower(index) if index is not None else None
    try:
        for entry in read_tail(run.events):
            told.events = entry.seq
            _hear(told, entry.event, waiting)
            if follower is not None:
                follower.hear(entry.event)
    except (OrchestrateError, ValueError, KeyError, TypeError) as error:
        why = error.message if isinstance(error, OrchestrateError) else f"{error!r}"
        told.notes.append(f"the journal can be read up to event {told.events} only: {why}")
    told.tallies.close(now, is_live=is_live)
    if follower is not None:
        told.trail = follower.trail
        follower.mark(is_live=is_live)
        told.notes += follower.notes
    if told.gaps:
        told.notes.append(f"{told.gaps} events were lost to damage before a `resume --repair`")
    return told


def _hear(told: Chronicle, event: Json, waiting: dict[tuple[str, str, int], Approval]) -> None:
    match event.get("on"):
        case "run-started":
            told.started = event
            told.sittings.append(Sitting(event["at"], event.get("head", "")))
        case "run-resumed":
            if told.sittings and told.sittings[-1].end is None:
                told.sittings[-1].end = told.tallies.last_at
            told.sittings.append(Sitting(event["at"], event.get("head", "")))
        case "run-ended":
            _end_sitting(told, event)
        case "gate-opened":
            approval = Approval(
                event["stage"], event["prompt"], event["at"], event.get("expires_at"),
                event["default"],
            )  # fmt: skip
            told.approvals.append(approval)
            waiting[event["frame"], event["node"], event["visit"]] = approval
        case "gate-decided":
            decided = waiting.pop((event["frame"], event["node"], event["visit"]), None)
            if decided is not None:
                decided.decision = event["decision"]
                decided.by = event["by"]
                decided.message = event.get("message", "")
                decided.decided_at = event["at"]
        case "gap":
            told.gaps += 1
        case _:
            pass
    told.tallies.hear(event)


def _end_sitting(told: Chronicle, event: Json) -> None:
    """A decision or a cancellation after the end of a sitting tells its end anew."""
    if not told.sittings:
        return
    sitting = told.sittings[-1]
    if sitting.end is None:
        sitting.end = event["at"]
        sitting.end_head = event.get("head", "")
    sitting.how, sitting.reason = event["status"], event["reason"]


class _Follower:
    """Folds the events into a state, as the engine does, and keeps the path that it takes."""

    def __init__(self, index: Index) -> None:
        from orchestrate.plan.trail import Trail

        self.trail = Trail()
        self.notes: list[str] = []
        self._index = index
        self._state: RunState | None = None
        self._is_lost = False
        # Steps whose failure counts, though the run went on.
        self._failures: set[tuple[str, str]] = set()
        index.hear_move = self._move

    def _move(self, plan: str, node: str, label: str, target: Target) -> None:
        from orchestrate.plan.nodes import FAILED

        self.trail.move(plan, node, label, target)
        if label == FAILED and self._index.place(plan, node).node.on_failure == "count":
            self._failures.add((plan, node))

    def hear(self, written: Json) -> None:
        if self._is_lost:
            return
        try:
            self._follow(written)
        except (OrchestrateError, ValueError, KeyError, AssertionError) as error:
            self._is_lost = True
            why = error.message if isinstance(error, OrchestrateError) else f"{error!r}"
            self.notes.append(f"the path through the plan is shown in part only: {why}")

    def _follow(self, written: Json) -> None:
        from orchestrate.state.apply import apply, start
        from orchestrate.state.events import (
            CallOpened,
            GateOpened,
            LoopOpened,
            Restarted,
            RunStarted,
            StepFinished,
            StepStarted,
            event_from_json,
        )

        event = event_from_json(written)
        if isinstance(event, RunStarted):
            self._state = start(self._index, event)
            self.trail.begin(event.plan)
            return
        state = self._state
        if state is None:
            return
        match event:
            case StepStarted() | LoopOpened() | CallOpened() | GateOpened() | StepFinished():
                frame = state.frames[event.frame]
                here = frame.here
                is_first = here is not None and not here.since and here.phase == "arriving"
                is_skipped = isinstance(event, StepFinished) and event.label == "@skipped"
                if is_first and not is_skipped:
                    self.trail.visit(frame.plan, event.node)
                if isinstance(event, CallOpened):
                    self.trail.begin(event.plan)
            case Restarted():
                self.trail.begin(event.plan)
            case _:
                pass
        apply(self._index, state, event)

    def mark(self, *, is_live: bool) -> None:
        """Where the run stands now, or what has stopped it."""
        from orchestrate.state.model import frames_below

        state = self._state
        if state is None or state.status == "completed":
            return
        has_failed = state.status == "failed"
        if has_failed and state.has_failures and state.root.here is None:
            self.trail.failed_at_end = state.reason or "some steps failed"
        if has_failed:
            for place in self._failures:
                self.trail.marks[place] = "failed"
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
            self.trail.marks[frame.plan, here.node] = mark
