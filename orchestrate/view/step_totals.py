"""What became of each step of a run, summed up from its events; loops count all their items.

A loop of ten thousand items has ten thousand results, and a reader has one screen. So a step inside
a loop has one tally, `Loop[*]/Step`, which counts, adds up, and keeps a few results as examples.
Of a loop of few items each is kept, by its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from orchestrate.record import field, mutable_record, record, replace
from orchestrate.state import events as on
from orchestrate.state.address import Address, FrameKey, Item, name_of_node
from orchestrate.state.alike import Alike
from orchestrate.state.captured import changed_by
from orchestrate.state.denials import add_denials
from orchestrate.state.events import Event
from orchestrate.state.result import Denials, StepResult
from orchestrate.view.bars import Bar, ItemBars, Kind, merged
from orchestrate.view.item_names import item_name
from orchestrate.view.usage import TotalUsage

_MOST_BARS = 4000
_EXAMPLES = 3
# A loop of more items is shown as a whole only.
_MOST_ITEMS = 20
_VISITS_SHOWN = 5


@record
class Example:
    """One result of a step, to be shown."""

    address: Address
    visit: int
    label: str
    at: float
    result: StepResult
    item: str = ""

    @property
    def is_failed(self) -> bool:
        return self.result.status == "failed"


@mutable_record
class Tally:
    """A step, or a step of a loop over all its items, entries and calls."""

    address: Address
    path: str
    visits: int = 0
    attempts: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    longest: float = 0.0
    # How long the last attempt took that was stopped and not begun again.
    cut_short: float = 0.0
    usage: TotalUsage = field(default_factory=TotalUsage)
    agents: dict[str, None] = field(default_factory=dict)
    permissions: dict[str, None] = field(default_factory=dict)
    items: int | None = None
    last: str = ""
    error: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    denials: Denials = ()
    bars: list[Bar] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    # By the frame of the item; empty where there are too many.
    by_item: dict[str, ItemBars] = field(default_factory=dict)

    def copied(self) -> Tally:
        """The same, to go on from here more than once."""
        return replace(
            self,
            statuses=dict(self.statuses),
            usage=replace(self.usage),
            agents=dict(self.agents),
            permissions=dict(self.permissions),
            outcomes=dict(self.outcomes),
            bars=list(self.bars),
            by_item={key: replace(one, bars=list(one.bars)) for key, one in self.by_item.items()},
        )

    @property
    def is_inner(self) -> bool:
        """Does it stand for the items of a loop?"""
        return self.address.is_of_loop

    def name_agent(self, result: StepResult) -> None:
        """Who was asked, with the model that answered; while it is at work, the one asked for."""
        agent = result.agent or result.provider
        if agent is None:
            return
        words = [result.model] if result.model else []
        words += [f"asked for {result.model_requested}"] if result.model_requested else []
        if result.permissions is not None:
            self.permissions[result.permissions] = None
        self.agents[f"{agent} ({', '.join(words)})" if words else agent] = None

    def draw(self, start: float, end: float, kind: Kind) -> None:
        self.bars.append(Bar(start, max(start, end), kind))
        if len(self.bars) > _MOST_BARS:
            self.bars = merged(self.bars, (self.bars[-1].end - self.bars[0].start) / _MOST_BARS)

    def keep(self, example: Example) -> None:
        """The last visits of a step; of a loop's items a few that failed, and the last one.

        Where items are few, each of them.
        """
        kept = self.examples
        if example.item and len(kept) < _MOST_ITEMS:
            self.examples = [*(one for one in kept if one.address != example.address), example]
            return
        if not self.is_inner:
            self.examples = [*kept, example][-_VISITS_SHOWN:]
            return
        failed = [one for one in kept if one.is_failed][:_EXAMPLES]
        self.examples = failed if example.is_failed and len(failed) >= _EXAMPLES else [
            *failed, example,
        ]  # fmt: skip


_Arrival = on.StepStarted | on.StepFinished | on.LoopOpened | on.CallOpened | on.GateOpened


class Tallies:
    """Hears the events of a run as they stand in the journal."""

    def __init__(self) -> None:
        self.by_path: dict[str, Tally] = {}
        # How often one step followed another in the same frame.
        self.steps_between: dict[tuple[str, str], int] = {}
        self._working: dict[tuple[str, str], float] = {}
        self._resting: dict[tuple[str, str], float] = {}
        self._asking: dict[tuple[str, str], float] = {}
        # What was said about the attempts that have not ended.
        self._asked: dict[tuple[str, str], StepResult] = {}
        self._before: dict[str, str] = {}
        # The names of the items of loops that have few, by frame; how many a loop has had.
        self._names: dict[str, str] = {}
        self._entered: dict[str, int] = {}
        self.last_at = 0.0

    def copied(self) -> Tallies:
        """The same, to go on from here more than once."""
        found = copy(self)
        for name, value in vars(self).items():
            setattr(found, name, dict(value) if isinstance(value, dict) else value)
        found.by_path = {path: tally.copied() for path, tally in self.by_path.items()}
        return found

    def hear(self, event: Event) -> None:
        if not isinstance(event, on.Gap):
            self.last_at = max(self.last_at, event.at)
        match event:
            case on.StepStarted():
                self._started(event)
            case on.AttemptEnded():
                self._attempt_ended(event)
            case on.StepFinished():
                self._finished(event)
            case on.LoopOpened():
                tally = self._arrive(event)
                if event.most is None:
                    tally.items = (tally.items or 0) + len(event.items)
                    self._name_items(event, tally.path)
                tally.draw(event.at, event.at, "span")
            case on.CallOpened():
                self._arrive(event).draw(event.at, event.at, "span")
            case on.CallExpired():
                self._expired(event)
            case on.GateOpened(reused=reused) if reused:
                self._count_reused(event)
            case on.GateOpened():
                self._arrive(event)
                self._asking[event.frame, event.node] = event.at
            case on.GateDecided():
                self._decided(event)
            case on.RunStarted() | on.RunResumed() | on.RunEnded() | on.Restarted() | on.Gap():
                pass
            case (
                on.ItemMoving()
                | on.ItemsMerged()
                | on.ItemMoved()
                | on.ItemStopped()
                | on.SessionSeen()
            ):
                pass
            case on.SessionChosen() | on.RoundEnded() | on.OutputsGiven():
                pass
            case on.CostReserved() | on.LimitNear() | on.CallWaits() | on.Checkpointed():
                self._changed(event)
            case on.Edited():
                self._give_up(event.at)

    def hear_alike(self, alike: Alike) -> None:
        """Items of a loop that all went well; the last ones of it are told one by one."""
        self.last_at = max(self.last_at, alike.last_at)
        frame = FrameKey.parse(alike.loop.frame)
        key = frame.item(name_of_node(alike.loop.node), alike.first, alike.loop.visit).text
        for node, times in alike.steps.items():
            tally = self._of(key, node)
            tally.visits += len(times)
            tally.attempts += len(times)
            tally.statuses["completed"] = tally.statuses.get("completed", 0) + len(times)
            tally.seconds += sum(took for _, _, took in times) / 1000
            tally.longest = max(tally.longest, max(took for _, _, took in times) / 1000)
            near = (times[-1][1] - times[0][0]) / _MOST_BARS
            start, end = times[0][:2]
            for began, ended, _ in times:
                if began - end > near:
                    tally.draw(start, end, "work")
                    start = began
                end = ended
            tally.draw(start, end, "work")

    @property
    def at_work(self) -> tuple[tuple[str, str], ...]:
        """The frames and nodes of the steps whose attempt has no end yet."""
        return tuple(self._working)

    def close(self, now: float, *, is_live: bool) -> None:
        """Nothing more comes: what has not ended is drawn as far as it is known."""
        end = now if is_live else self.last_at
        for (frame, node), start in self._working.items():
            tally = self._of(frame, node)
            tally.name_agent(self._asked.get((frame, node), StepResult()))
            tally.last = "running" if is_live else "unfinished"
            self._draw(tally, frame, start, end, "open")
        for waiting, kind in ((self._resting, "rest"), (self._asking, "wait")):
            for (frame, node), start in waiting.items():
                tally = self._of(frame, node)
                tally.last = "waiting"
                self._draw(tally, frame, start, end, "rest" if kind == "rest" else "wait")
        for tally in self.by_path.values():
            tally.seconds += tally.cut_short
            if len(tally.by_item) > _MOST_ITEMS or self._has_unnamed(tally):
                tally.by_item = {}
        self._stretch_spans()

    def _has_unnamed(self, tally: Tally) -> bool:
        """Was a loop around it entered with too many items, so that only some have names?"""
        crowded = (path for path, count in self._entered.items() if count > _MOST_ITEMS)
        return any(self.by_path[path].address.contains(tally.address) for path in crowded)

    def add_results(self, results: Iterable[tuple[Address, StepResult]]) -> int:
        """Steps that the journal does not have, from the results in the state; how many."""
        heard = set(self.by_path)
        for address, result in results:
            general = address.of_all_items
            if general.shown in heard:
                continue
            tally = self.by_path.setdefault(general.shown, Tally(general, general.shown))
            status = result.status
            tally.visits += status != "skipped"
            tally.attempts += result.attempts if result.has("attempts") else 0
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            tally.last, tally.error = status, (result.message or result.reason)
            tally.usage.add(result)
            tally.denials = add_denials(tally.denials, result.denials)
            took = result.duration_ms / 1000
            tally.seconds += took
            tally.longest = max(tally.longest, took)
            tally.keep(Example(address.step, address.visit or 1, "", 0.0, result))
        return len(self.by_path) - len(heard)

    def _of(self, frame: str, node: str) -> Tally:
        general = FrameKey.parse(frame).step(name_of_node(node)).of_all_items
        path = general.shown
        tally = self.by_path.get(path)
        if tally is None:
            tally = self.by_path[path] = Tally(general, path)
        return tally

    def _name_items(self, event: on.LoopOpened, loop: str) -> None:
        self._entered[loop] = self._entered.get(loop, 0) + len(event.items)
        if self._entered[loop] > _MOST_ITEMS:
            return
        frame, name = FrameKey.parse(event.frame), name_of_node(event.node)
        outer = f"{self._names[event.frame]} / " if event.frame in self._names else ""
        for number, item in enumerate(event.items):
            key = frame.item(name, number, event.visit).text
            self._names[key] = f"{outer}{item_name(item)}"

    def _draw(self, tally: Tally, frame: str, start: float, end: float, kind: Kind) -> None:
        tally.draw(start, end, kind)
        name = self._names.get(frame)
        if name is not None:
            item = tally.by_item.get(frame)
            if item is None:
                parts = FrameKey.parse(frame).parts
                numbers = tuple(part.index or 0 for part in parts if isinstance(part, Item))
                item = tally.by_item[frame] = ItemBars(numbers, name, [])
            item.bars.append(Bar(start, max(start, end), kind))

    def _arrive(self, event: _Arrival) -> Tally:
        tally = self._of(event.frame, event.node)
        tally.visits += 1
        before = self._before.get(event.frame)
        if before is not None:
            pair = (before, tally.path)
            self.steps_between[pair] = self.steps_between.get(pair, 0) + 1
        self._before[event.frame] = tally.path
        return tally

    def _started(self, event: on.StepStarted) -> None:
        key = (event.frame, event.node)
        if event.origin is not None:
            self._working[key], self._asked[key] = event.at, event.about
            return
        tally = self._arrive(event) if event.attempt == 1 else self._of(*key)
        tally.attempts += 1
        tally.cut_short = 0.0
        rest = self._resting.pop(key, None)
        if rest is not None:
            self._draw(tally, event.frame, rest, event.at, "rest")
        self._working[key] = event.at
        self._asked[key] = event.about

    def _attempt_ended(self, event: on.AttemptEnded) -> None:
        key = (event.frame, event.node)
        tally = self._of(*key)
        start = self._working.pop(key, event.at)
        kinds: dict[str, Kind] = {"failed": "fail", "reminded": "work"}
        # That it was stopped or lost may have been found out a night later.
        took = event.result.duration_ms / 1000 if event.result.has("duration_ms") else None
        end = event.at if took is None else min(event.at, start + took)
        self._draw(tally, event.frame, start, end, kinds.get(event.why, "cut"))
        if event.why == "stopped":
            tally.last, tally.cut_short = "stopped", end - start
        tally.name_agent(event.result)
        tally.usage.add(event.result)
        tally.denials = add_denials(tally.denials, event.result.denials)
        if event.rest_s:
            self._resting[key] = event.at

    def _count_reused(self, event: on.StepFinished | on.GateOpened) -> None:
        """What it took and cost was counted when it was done."""
        tally = self._of(event.frame, event.node)
        tally.last = "reused"
        tally.statuses["reused"] = tally.statuses.get("reused", 0) + 1

    def _give_up(self, at: float) -> None:
        """The run was edited: what had not ended is begun anew, or goes on."""
        for (frame, node), start in self._working.items():
            self._draw(self._of(frame, node), frame, start, at, "cut")
        for unfinished in (self._working, self._resting, self._asking):
            unfinished.clear()

    def _finished(self, event: on.StepFinished) -> None:
        key = (event.frame, event.node)
        result = event.result
        if result.reused:
            self._count_reused(event)
            return
        status = result.status
        start = self._working.pop(key, None)
        # A step that was skipped, or refused before its program could start, was never announced.
        tally = self._of(*key) if start is not None else self._arrive(event)
        tally.visits -= status == "skipped" and start is None
        tally.statuses[status] = tally.statuses.get(status, 0) + 1
        tally.last = status
        tally.error = result.message or result.reason
        tally.name_agent(result)
        if result.outcome is not None:
            tally.outcomes[result.outcome] = tally.outcomes.get(result.outcome, 0) + 1
        tally.usage.add(result)
        tally.denials = add_denials(tally.denials, result.denials)
        if status != "skipped":
            began = start if start is not None else event.at
            took = result.duration_ms / 1000 if result.has("duration_ms") else event.at - began
            tally.seconds += took
            tally.longest = max(tally.longest, took)
            good: Kind = "work" if result.wait_duration_ms is None else "wait"
            self._draw(tally, event.frame, began, event.at, "fail" if status == "failed" else good)
        address = FrameKey.parse(event.frame).step(tally.address.name)
        item = self._names.get(event.frame, "")
        tally.keep(Example(address, event.visit, event.label, event.at, result, item))

    def _changed(self, event: Event) -> None:
        """Commands are told what they changed after their end, by the next checkpoint."""
        if not isinstance(event, on.Checkpointed):
            return
        told = StepResult(changed=changed_by(event))
        for text in event.steps:
            visited = Address.parse(text)
            tally = self.by_path.get(visited.of_all_items.shown)
            if tally is not None:
                tally.examples = [
                    replace(one, result=one.result | told)
                    if (one.address, one.visit) == (visited.step, visited.visit)
                    else one
                    for one in tally.examples
                ]

    def _decided(self, event: on.GateDecided) -> None:
        key = (event.frame, event.node)
        if self._of(*key).last == "reused":
            return
        tally = self._of(*key)
        asked = self._asking.pop(key, event.at)
        self._draw(tally, event.frame, asked, event.at, "wait")
        tally.last = event.decision
        tally.statuses[tally.last] = tally.statuses.get(tally.last, 0) + 1
        tally.seconds += event.at - asked
        tally.longest = max(tally.longest, event.at - asked)

    def _expired(self, event: on.CallExpired) -> None:
        """The call is given up, with everything in it that has not ended."""
        call = FrameKey.parse(event.frame).step(name_of_node(event.node))
        self._of(event.frame, event.node).error = f"timed out after {event.timeout_s:g} s"
        for unfinished in (self._working, self._resting, self._asking):
            for frame, node in list(unfinished):
                if call.contains(FrameKey.parse(frame).step(name_of_node(node))):
                    start = unfinished.pop((frame, node))
                    self._draw(self._of(frame, node), frame, start, event.at, "cut")

    def _stretch_spans(self) -> None:
        """A loop or a call lasts until the last thing inside it has ended."""
        for tally in self.by_path.values():
            if tally.items is None and not any(bar.kind == "span" for bar in tally.bars):
                continue
            inside = [
                bar
                for other in self.by_path.values()
                if tally.address.contains(other.address)
                for bar in other.bars
            ]
            starts = [bar.start for bar in tally.bars]
            ends = [max([b.end for b in inside if b.start >= s], default=s) for s in starts]
            limits = [*starts[1:], float("inf")]
            tally.bars = [
                Bar(start, min(end, limit), "span")
                for start, end, limit in zip(starts, ends, limits, strict=True)
            ]
            tally.seconds = sum(bar.end - bar.start for bar in tally.bars)
            tally.longest = max(bar.end - bar.start for bar in tally.bars)
