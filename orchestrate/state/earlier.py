"""What a run has found before an edit: every result by its path, with the key that it answers.

A path is made of names, and of items where a loop is: equal ones are counted, and none is known by
its place in the list. It is read from the journal, which has everything.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

from orchestrate.digest import digest_of
from orchestrate.plan.nodes import SKIPPED
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.state import events as on
from orchestrate.state.address import Address, Called, FrameKey, Item, name_of_node
from orchestrate.state.events import Event
from orchestrate.state.gates import OF_STAGE, is_of_stage
from orchestrate.state.result import StepResult
from orchestrate.state.sessions import OF_SESSIONS

Path = tuple[str, ...]
Opened = on.LoopOpened | on.CallOpened
# In the key of a result that a person has accepted: the digest of what it had answered.
ACCEPTED = "accepted"


def turn_of(key: dict[str, Any]) -> str:
    """The key of a turn, for the one behind it in its session."""
    return str(key.get(ACCEPTED) or digest_of(key))


@mutable_record
class EarlierVisit:
    """What is known of one visit of a step: the question, and how it was answered."""

    path: Path
    frame: str
    visit: int
    name: str
    edit: int
    key: dict[str, Any] = field(default_factory=dict)
    why: dict[str, Any] = field(default_factory=dict)
    # It was started, and its end is not on record.
    started: on.StepStarted | None = None
    finished: on.StepFinished | None = None
    opened: Opened | None = None
    asked: on.GateOpened | None = None
    decided: on.GateDecided | None = None
    moved: on.ItemMoved | None = None
    # Something was started for it, however that ended.
    has_begun: bool = False

    @property
    def address(self) -> Address:
        """Of its newest attempt; of the visit where there is none."""
        if self.finished is not None and self.finished.result.address:
            return Address.parse(self.finished.result.address)
        if self.started is not None:
            key, visit = self.started.origin or (self.frame, self.visit)
            return Address(FrameKey.parse(key), self.name, visit, self.started.attempt)
        return self.visited

    @property
    def visited(self) -> Address:
        return Address(FrameKey.parse(self.frame), self.name, self.visit)

    @property
    def is_answered(self) -> bool:
        return self.finished is not None or self.decided is not None


@record
class Attempt:
    """A program that may still run."""

    id: str
    where: str


class Earlier:
    """The results of a run by path, as its events tell them one after another."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.entries: dict[Path, EarlierVisit] = {}
        # The last that the run has recorded of each file.
        self.files: dict[str, str] = {}
        # Where a step has changed one since: the tree of the checkpoint that has it.
        self._captured: dict[str, str] = {}
        # Values that were given after the start: they reach what has not finished.
        self.given: set[str] = set()
        self.edits: list[on.Edited] = []
        # What an edit has made worthless, and since the last one the paths of what it took over.
        self.void: list[EarlierVisit] = []
        self.kept: set[Path] = set()
        self.redo: set[Path] = set()
        self.accept: set[Path] = set()
        self._loops: dict[tuple[str, str, int], list[Any]] = {}
        self._segments: dict[tuple[str, str, int], list[str]] = {}
        self._spoilt: set[tuple[int, str]] = set()
        for event in events:
            self.add(event)

    @property
    def edit(self) -> int:
        return self.edits[-1].edit if self.edits else 0

    def add(self, event: Event) -> None:  # noqa: PLR0912 - one an event
        match event:
            case on.Edited():
                self._edited(event)
            case on.RunResumed():
                self.given |= event.context.keys()
                if event.copied:
                    self._forget_sessions()
            case on.LoopOpened():
                self.hear(event)
                entry = self._entry(event)
                entry.opened, entry.key = event, event.key
            case on.CallOpened():
                entry = self._entry(event)
                if entry.edit == self.edit:
                    self._drop_below(entry.path)  # another try of the same call
                entry.opened, entry.key = event, event.key
            case on.StepStarted():
                self._started(event)
            case on.AttemptEnded():
                self._entry(event).started = None
            case on.StepFinished():
                self._finished(event)
            case on.GateOpened():
                entry = self._entry(event)
                entry.key, entry.asked, entry.decided = event.key, event, None
                if not event.reused:
                    self._spoil(event.frame)
            case on.GateDecided():
                self._entry(event).decided = event
            case on.ItemMoved():
                path = self.path(event.frame)
                moved = EarlierVisit(path, event.frame, 1, path[-1], self.edit, moved=event)
                self.entries[path] = moved
            case on.RunStarted():
                self.given |= set((event.forked or {}).get("given", ()))
            case on.Restarted() | on.RunEnded() | on.Gap() | on.RoundEnded():
                pass
            case (
                on.ItemMoving()
                | on.ItemsMerged()
                | on.ItemStopped()
                | on.CallExpired()
                | on.OutputsGiven()
            ):
                pass
            case (
                on.SessionSeen() | on.SessionChosen() | on.CostReserved() | on.LimitNear()
                | on.CallWaits()
            ):  # fmt: skip
                pass
            case on.Checkpointed():
                self._capture(event)

    def _capture(self, event: on.Checkpointed) -> None:
        """What steps have changed, or a rewind; a checkpoint of neither has what others did."""
        if not event.checkpoint or not (event.steps or event.undoes or event.is_undo):
            return
        # Of very many changes not all are named.
        unnamed = [posixpath.normpath(name) for name in self.files] if event.more else []
        names = [*unnamed, *(str(change[1]) for change in event.changes)]
        self._captured |= dict.fromkeys(names, str(event.checkpoint["tree"]))

    def _record_files(self, files: dict[str, str]) -> None:
        self.files |= files
        for name in files:
            self._captured.pop(posixpath.normpath(name), None)

    def tree_of(self, name: str) -> str:
        """The newest tree that a file was changed in since it was last recorded; '' if none."""
        return self._captured.get(posixpath.normpath(name), "")

    def _edited(self, event: on.Edited) -> None:
        # What was accepted and not come to yet stays so, as long as the files are the same.
        is_same = bool(self.edits) and self.edits[-1].checksum == event.checksum
        owed = {p for p in self.accept if not self._is_met(p)} if is_same else set()
        self.edits.append(event)
        self.kept = set()
        self.redo = {tuple(path) for path in event.redo}
        self.accept = {tuple(path) for path in event.accept} | owed

    def owed_redo(self) -> list[Path]:
        """The results that were to be made anew, or that a rewind made void, and still stand."""
        found = [self.entries.get(path) for path in self.redo]
        return sorted(e.path for e in found if e is not None and e.edit != self.edit)

    def _is_met(self, path: Path) -> bool:
        """Has the run answered it since its last edit, or what it is a part of?"""
        heads = [word.partition("[")[0].removesuffix("()") for word in path]
        outer = [self.entries.get((*path[:n], head)) for n, head in enumerate(heads)]
        return any(e is not None and e.edit == self.edit and e.is_answered for e in outer)

    def _started(self, event: on.StepStarted) -> None:
        entry = self._entry(event)
        entry.key, entry.why = event.key or entry.key, event.why
        entry.started, entry.finished, entry.has_begun = event, None, True
        self._record_files(event.key.get("files", {}))
        if event.origin is None:
            self._spoil(event.frame)

    def _finished(self, event: on.StepFinished) -> None:
        entry = self._entry(event)
        entry.started, entry.finished = None, event
        entry.key = event.key or entry.key
        if event.result.reused:
            self.kept.add(entry.path)
            return
        self._record_files(event.made)
        if event.label != SKIPPED:
            self._spoil(event.frame)

    def _forget_sessions(self) -> None:
        """The run is a copy from here on: the earlier sessions go on in the original."""
        for entry in (*self.entries.values(), *self.void):
            if entry.finished is not None:
                result = entry.finished.result.without(*OF_SESSIONS)
                entry.finished = replace(entry.finished, result=result)

    def leave_origin(self, run_id: str) -> None:
        """All of this is another run's: what has no end goes on there, and results are marked."""
        for entry in self.entries.values():
            entry.started = None
            if entry.finished is not None:
                from_run = entry.finished.result.from_run or run_id
                result = entry.finished.result | StepResult(from_run=from_run)
                entry.finished = replace(entry.finished, result=result)

    def hear(self, event: Event) -> None:
        """Learn the items of a loop, which are part of the paths inside it."""
        if isinstance(event, on.LoopOpened):
            # The rounds of a loop without items are known by their numbers.
            items = event.items if event.most is None else []
            self._loops[event.frame, name_of_node(event.node), event.visit] = items

    def path(self, frame_key: str) -> Path:
        """The path of a frame."""
        frame = FrameKey.parse(frame_key)
        words = [f"restart-{frame.restart}"] if frame.restart else []
        outer = FrameKey(frame.restart, (), frame.edit)
        for part in frame.parts:
            match part:
                case Item(loop, index, visit):
                    word = self._segment((outer.text, loop, visit), index or 0)
                    words.append(f"{loop}:{visit}[{word}]")
                case Called(step, visit):
                    words.append(f"{step}:{visit}()")
            outer = FrameKey(outer.restart, (*outer.parts, part), outer.edit)
        return tuple(words)

    def step_path(self, frame_key: str, name: str, visit: int) -> Path:
        return (*self.path(frame_key), f"{name}:{visit}")

    def called_plan(self, path: Path) -> str:
        """The plan that a step is part of, if it is one that was called; else ''."""
        for depth in range(len(path) - 1, 0, -1):
            *outer, word = path[:depth]
            if word.endswith("()"):
                call = self.entries.get((*outer, word.removesuffix("()")))
                opened = call.opened if call is not None else None
                return opened.plan if isinstance(opened, on.CallOpened) else ""
        return ""

    def item_paths(self, event: on.LoopOpened) -> set[Path]:
        """The paths of the items that a loop has, or of the rounds that it may make."""
        *outer, word = self.step_path(event.frame, name_of_node(event.node), event.visit)
        loop = event.frame, name_of_node(event.node), event.visit
        count = len(event.items) if event.most is None else event.most
        return {(*outer, f"{word}[{self._segment(loop, n)}]") for n in range(count)}

    def _segment(self, loop: tuple[str, str, int], index: int) -> str:
        """An item, by what it is and how many like it stand before it; a round by its number."""
        items = self._loops.get(loop, [])
        if index >= len(items):
            return f"#{index}"
        known = self._segments.setdefault(loop, [])
        if len(known) != len(items):
            counts: dict[str, int] = {}
            known.clear()
            for item in items:
                digest = digest_of(item)
                counts[digest] = counts.get(digest, 0) + 1
                known.append(f"{digest}#{counts[digest]}")
        return known[index]

    def _entry(self, event: Any) -> EarlierVisit:
        name = name_of_node(event.node)
        path = self.step_path(event.frame, name, event.visit)
        entry = self.entries.get(path)
        if entry is None or entry.edit != self.edit:
            entry = EarlierVisit(path, event.frame, event.visit, name, self.edit)
            self.entries[path] = entry
        return entry

    def _spoil(self, frame_key: str) -> None:
        """A step has run anew: what an earlier edit has of the steps behind it counts no more.

        Items of one loop are independent of each other.
        """
        if not self.edit or (self.edit, frame_key) in self._spoilt:
            return
        self._spoilt.add((self.edit, frame_key))
        path = self.path(frame_key)
        for other in [e for e in self.entries.values() if e.edit != self.edit]:
            shared = 0
            for mine, its in zip(path, other.path, strict=False):
                if mine != its:
                    break
                shared += 1
            is_sibling = (
                shared < min(len(path), len(other.path))
                and "[" in path[shared]
                and "[#" not in path[shared]
                and path[shared].partition("[")[0] == other.path[shared].partition("[")[0]
            )
            if not is_sibling and other.path not in self.accept:
                self.void.append(other)
                del self.entries[other.path]

    def _drop_below(self, path: Path) -> None:
        inner = (*path[:-1], f"{path[-1]}()")
        for other in [p for p in self.entries if p[: len(inner)] == inner]:
            del self.entries[other]

    def covered(self, wanted: Address) -> list[EarlierVisit]:
        """The entries that a person means: a step, all that is in a loop or called plan, or the
        approval of a stage."""
        found = []
        for entry in self.entries.values():
            here = entry.visited
            if entry.moved is None and (wanted.covers(here) or wanted.contains(here)):
                found.append(entry)
        if found or is_of_stage(wanted.name):
            return found
        return self.covered(replace(wanted, name=OF_STAGE + wanted.name))

    @property
    def shown_names(self) -> list[str]:
        """What a person can name: each step once, by its path."""
        entries = (entry for entry in self.entries.values() if entry.key or entry.has_begun)
        return list(dict.fromkeys(entry.visited.step.shown for entry in entries))

    @property
    def running(self) -> list[EarlierVisit]:
        """What was started and whose end is not on record."""
        return [entry for entry in self.entries.values() if entry.started is not None]


def attempts_of(entries: Sequence[EarlierVisit]) -> list[Attempt]:
    return [
        Attempt(entry.address.attempt_id, entry.started.where)
        for entry in entries
        if entry.started is not None
    ]
