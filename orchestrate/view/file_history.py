"""Which checkpoint stands before and after each step of a run, as its journal tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.record import field, mutable_record, record
from orchestrate.state import events as on
from orchestrate.state.address import Address, FrameKey, name_of_node
from orchestrate.state.events import Event, Json

_MOST_NAMES = 12
_Key = tuple[str, str, int]
Opened = on.LoopOpened | on.CallOpened


@mutable_record
class VisitSpan:
    """One visit of a step, a loop or a call; `position` is its place in the journal.

    `shares_before` are steps that ended, or were at work, between the checkpoint before it and its
    beginning; `shares_after` those that the checkpoint after it is about, too.
    """

    address: Address
    position: int
    before: dict[str, Json] | None
    shares_before: list[str] = field(default_factory=list)
    after: dict[str, Json] | None = None
    shares_after: list[str] = field(default_factory=list)

    @property
    def shown(self) -> str:
        return shown(self.address)

    @property
    def may_have_changed_files(self) -> bool:
        """As far as the checkpoints around it tell, which others may share."""
        if self.before is None or self.after is None:
            return True
        return bool(self.before["tree"] != self.after["tree"])


def shown(address: Address) -> str:
    """As people type it, with `@2` for a second visit."""
    return shown_visit(address, address.visit or 1)


def shown_visit(address: Address, visit: int, *, is_one_of_many: bool = False) -> str:
    """The same for a visit; the first one, too, where there are more: a bare name is the newest."""
    plain = Address(FrameKey(address.frame.restart, address.frame.parts), address.name)
    return f"{plain.shown}@{visit}" if visit > 1 or is_one_of_many else plain.shown


@record
class Rewind:
    """A rewind that was not undone: the checkpoint from before it, and the results that went."""

    position: int
    safety: dict[str, Json]
    void: tuple[tuple[str, ...], ...]


class FileHistory:
    """The checkpoints of a run in order, and the steps between them."""

    def __init__(self, events: Iterable[Event]) -> None:
        # With the place of each in the journal.
        self.placed: list[tuple[int, on.Checkpointed]] = []
        self.spans: dict[_Key, VisitSpan] = {}
        self.rewinds: list[Rewind] = []
        self.last_step = -1
        # Why there is no checkpoint of how the files are now, if the last one could not be taken.
        self.fault = ""
        # Steps of another run, that were taken over from it.
        self._from: dict[str, str] = {}
        self._redo: tuple[tuple[str, ...], ...] = ()
        self._last: dict[str, Json] | None = None
        # What has ended since the last checkpoint, and what has not ended yet.
        self._since: list[VisitSpan] = []
        self._at_work: dict[_Key, VisitSpan] = {}
        for position, event in enumerate(events):
            self._hear(position, event)

    def _hear(self, position: int, event: Event) -> None:
        match event:
            case on.Checkpointed() if event.checkpoint:
                self.placed.append((position, event))
                self._last, self.fault = event.checkpoint, ""
                # An agent's is on record before its end is.
                for key, span in [*self._at_work.items()]:
                    if span.address.text in event.steps:
                        self._since.append(self._at_work.pop(key))
                names = [span.shown for span in self._since]
                for span in self._since:
                    span.after = event.checkpoint
                    span.shares_after = [name for name in names if name != span.shown]
                self._since = []
                if event.is_undo:
                    self.rewinds.pop()
                elif event.undoes:
                    self.rewinds.append(Rewind(position, event.undoes, self._redo))
            case on.Checkpointed():
                self.fault = event.fault
            case on.StepStarted() if event.origin is None:
                self.last_step = position
                self._begin(position, event)
            case on.LoopOpened() | on.CallOpened():
                self._open(position, event)
            case on.StepFinished() if not event.result.reused:
                key = (event.frame, event.node, event.visit)
                # A wait looks for files and changes none.
                if key in self._at_work and not event.result.has("wait_duration_ms"):
                    self._since.append(self._at_work[key])
                self._at_work.pop(key, None)
            case on.StepFinished() if event.result.from_run is not None:
                address = Address(FrameKey.parse(event.frame), name_of_node(event.node))
                self._from[address.shown] = event.result.from_run
            case on.Edited():
                self._at_work.clear()
                self._redo = tuple(tuple(path) for path in event.redo)
            case (
                on.StepStarted() | on.StepFinished() | on.AttemptEnded() | on.RunStarted()
                | on.RunResumed() | on.RunEnded() | on.Restarted() | on.Gap()
                | on.RoundEnded() | on.ItemMoving() | on.ItemMoved() | on.ItemStopped()
                | on.ItemsMerged()
                | on.CallExpired() | on.OutputsGiven() | on.GateOpened() | on.GateDecided()
                | on.SessionSeen() | on.SessionChosen() | on.CostReserved() | on.LimitNear()
                | on.CallWaits()
            ):  # fmt: skip
                pass

    def _begin(self, position: int, event: on.StepStarted) -> None:
        key = (event.frame, event.node, event.visit)
        if key not in self._at_work:
            self.spans[key] = self._at_work[key] = self._span(position, event)

    def _open(self, position: int, event: Opened) -> None:
        key = (event.frame, event.node, event.visit)
        self.spans.setdefault(key, self._span(position, event))

    def _span(self, position: int, event: on.StepStarted | Opened) -> VisitSpan:
        others = [*self._since, *self._at_work.values()]
        address = Address(FrameKey.parse(event.frame), name_of_node(event.node), event.visit)
        return VisitSpan(address, position, self._last, [one.shown for one in others])

    @property
    def checkpoints(self) -> list[on.Checkpointed]:
        return [event for _, event in self.placed]

    def added_from(self, position: int, added: Callable[[str, str], Iterable[str]]) -> set[str]:
        """The files that steps, or a rewind, have added at that place of the journal or later, and
        that were still there at the last checkpoint.

        What a checkpoint of neither found is a person's. `added` compares two trees, for those
        with very many changes.
        """
        found: set[str] = set()
        before = ""
        for at, event in self.placed:
            tree = str(event.checkpoint["tree"])
            if at >= position:
                found -= {path for kind, path in event.changes if kind in ("added", "deleted")}
                if event.steps or event.undoes or event.is_undo:
                    found |= {path for kind, path in event.changes if kind == "added"}
                    found |= {*added(before, tree)} if event.more else set()
            before = tree
        return found

    def find(self, text: str) -> VisitSpan:
        """The newest visit of the step that a person means."""
        try:
            wanted = Address.typed(text)
        except ValueError:
            wanted = None
        found = [s for s in self.spans.values() if wanted is not None and wanted.covers(s.address)]
        if found:
            return max(found, key=lambda span: span.position)
        if text in self._from:
            raise UsageError(
                f"step '{visible(text)}' was taken over from run {self._from[text]}",
                "what it changed is in the checkpoints of that run",
            )
        names = list(dict.fromkeys(span.shown for span in self.spans.values()))
        listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        near = closest(text, names)
        also = f" (did you mean '{visible(near)}'?)" if near else ""
        raise UsageError(
            f"the run has not begun a step '{visible(text)}'{also}",
            f"it has begun: {visible(listed)}",
        )

    def after(self, span: VisitSpan) -> dict[str, Json] | None:
        """The first checkpoint behind all that belongs to a step, loop or call."""
        inside = [s for s in self.spans.values() if span.address.contains(s.address)]
        if not inside:
            return span.after
        last = max(inside, key=lambda one: one.position)
        return last.after
