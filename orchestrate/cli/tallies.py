"""What became of each step of a run, summed up from its events; loops count all their items.

A loop of ten thousand items has ten thousand results, and a reader has one screen. So a step inside
a loop has one tally, `Loop[*]/Step`, which counts, adds up, and keeps a few results as examples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from orchestrate.record import field, mutable_record, record

Json = dict[str, Any]
# work: it went well; fail: it did not; rest: until the next attempt; wait: for a file or a person;
# cut: stopped or lost; open: it has not ended; span: a loop or a call, over all that is in it.
Kind = Literal["work", "fail", "rest", "wait", "cut", "open", "span"]

_ITEM = re.compile(r"\[\d+\]")
_VISIT = re.compile(r"(?::\d+)?(\[\d+\])")
_CALL = re.compile(r"(?::\d+)?(?:@\d+)?\(\)")
_MOST_BARS = 4000
_EXAMPLES = 3
_VISITS_SHOWN = 5


@record
class Bar:
    """A stretch of time in which a step did something."""

    start: float
    end: float
    kind: Kind


@mutable_record
class Usage:
    """What agents reported; what they did not report is counted, never taken as nothing."""

    turns: int = 0
    unbilled: int = 0
    cost_usd: float = 0.0
    without_cost: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    without_tokens: int = 0

    def add(self, result: Json) -> None:
        # A provider that a workflow declares costs what nobody tells us.
        if "agent" not in result and "provider" not in result:
            return
        if not result.get("billed", True):
            self.unbilled += 1
            return
        self.turns += 1
        self.cost_usd = round(self.cost_usd + (result.get("cost_usd") or 0.0), 10)
        self.without_cost += result.get("cost_usd") is None
        read, written = result.get("input_tokens"), result.get("output_tokens")
        self.input_tokens += read or 0
        self.output_tokens += written or 0
        self.without_tokens += read is None or written is None

    def include(self, other: Usage) -> None:
        for name in type(self).__match_args__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cost_usd = round(self.cost_usd, 10)


@record
class Example:
    """One result of a step, to be shown."""

    frame: str
    visit: int
    label: str
    at: float
    result: Json

    @property
    def is_failed(self) -> bool:
        return self.result.get("status") == "failed"


@mutable_record
class Tally:
    """A step, or a step of a loop over all its items. `name` is the author's."""

    path: str
    node: str
    frame: str
    visits: int = 0
    attempts: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    longest: float = 0.0
    usage: Usage = field(default_factory=Usage)
    agents: dict[str, None] = field(default_factory=dict)
    items: int | None = None
    last: str = ""
    error: str = ""
    outcomes: dict[str, int] = field(default_factory=dict)
    bars: list[Bar] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)

    @property
    def is_inner(self) -> bool:
        """Does it stand for the items of a loop?"""
        return "[*]" in self.path

    def draw(self, start: float, end: float, kind: Kind) -> None:
        self.bars.append(Bar(start, max(start, end), kind))
        if len(self.bars) > _MOST_BARS:
            self.bars = merged(self.bars, (self.bars[-1].end - self.bars[0].start) / _MOST_BARS)

    def keep(self, example: Example) -> None:
        """The last visits of a step; of a loop's items a few that failed, and the last one."""
        kept = self.examples
        if not self.is_inner:
            self.examples = [*kept, example][-_VISITS_SHOWN:]
            return
        failed = [one for one in kept if one.is_failed][:_EXAMPLES]
        self.examples = failed if example.is_failed and len(failed) >= _EXAMPLES else [
            *failed, example,
        ]  # fmt: skip


def merged(bars: list[Bar], nearer_than: float) -> list[Bar]:
    """Fewer bars that look the same: those of one kind that lie so near become one."""
    found: list[Bar] = []
    newest: dict[str, int] = {}
    for bar in sorted(bars, key=lambda one: (one.start, one.end)):
        at = newest.get(bar.kind)
        if at is not None and bar.start - found[at].end <= nearer_than:
            joined = Bar(found[at].start, max(found[at].end, bar.end), bar.kind)
            found[at] = joined
        else:
            newest[bar.kind] = len(found)
            found.append(bar)
    return found


class Tallies:
    """Hears the events of a run as they stand in the journal."""

    def __init__(self) -> None:
        self.by_path: dict[str, Tally] = {}
        # How often one step followed another in the same frame.
        self.steps_between: dict[tuple[str, str], int] = {}
        self._working: dict[tuple[str, str], float] = {}
        self._resting: dict[tuple[str, str], float] = {}
        self._asking: dict[tuple[str, str], float] = {}
        self._before: dict[str, str] = {}
        self.last_at = 0.0

    def hear(self, event: Json) -> None:
        self.last_at = max(self.last_at, float(event.get("at", 0.0)))
        match event.get("on"):
            case "step-started":
                self._started(event)
            case "attempt-ended":
                self._attempt_ended(event)
            case "step-finished":
                self._finished(event)
            case "loop-opened":
                tally = self._arrive(event)
                tally.items = (tally.items or 0) + len(event["items"])
                tally.draw(event["at"], event["at"], "span")
            case "call-opened":
                self._arrive(event).draw(event["at"], event["at"], "span")
            case "gate-opened":
                self._arrive(event)
                self._asking[event["frame"], event["node"]] = event["at"]
            case "gate-decided":
                self._decided(event)
            case _:
                pass

    def close(self, now: float, *, is_live: bool) -> None:
        """Nothing more comes: what has not ended is drawn as far as it is known."""
        end = now if is_live else self.last_at
        for (frame, node), start in self._working.items():
            tally = self._of(frame, node)
            tally.last = "running" if is_live else "unfinished"
            tally.draw(start, end, "open")
        for waiting, kind in ((self._resting, "rest"), (self._asking, "wait")):
            for (frame, node), start in waiting.items():
                tally = self._of(frame, node)
                tally.last = "waiting"
                tally.draw(start, end, "rest" if kind == "rest" else "wait")
        self._stretch_spans()

    def add_results(self, results: Iterable[tuple[str, Json]]) -> int:
        """Steps that the journal does not have, from the state's results by path; how many."""
        heard = set(self.by_path)
        for path, result in results:
            general = _ITEM.sub("[*]", path)
            if general in heard:
                continue
            where, _, name = path.rpartition("/")
            tally = self.by_path.setdefault(general, Tally(general, name, where))
            status = str(result.get("status", ""))
            tally.visits += status != "skipped"
            tally.attempts += int(result.get("attempts", 0))
            tally.statuses[status] = tally.statuses.get(status, 0) + 1
            tally.last, tally.error = status, _message(result)
            tally.usage.add(result)
            took = result.get("duration_ms", 0) / 1000
            tally.seconds += took
            tally.longest = max(tally.longest, took)
            tally.keep(Example(where, 1, "", 0.0, result))
        return len(self.by_path) - len(heard)

    def _of(self, frame: str, node: str) -> Tally:
        path = path_of(frame, node)
        tally = self.by_path.get(path)
        if tally is None:
            tally = self.by_path[path] = Tally(path, node, frame)
        return tally

    def _arrive(self, event: Json) -> Tally:
        tally = self._of(event["frame"], event["node"])
        tally.visits += 1
        before = self._before.get(event["frame"])
        if before is not None:
            pair = (before, tally.path)
            self.steps_between[pair] = self.steps_between.get(pair, 0) + 1
        self._before[event["frame"]] = tally.path
        return tally

    def _started(self, event: Json) -> None:
        key = (event["frame"], event["node"])
        tally = self._arrive(event) if event["attempt"] == 1 else self._of(*key)
        tally.attempts += 1
        rest = self._resting.pop(key, None)
        if rest is not None:
            tally.draw(rest, event["at"], "rest")
        self._working[key] = event["at"]
        agent = event.get("about", {}).get("agent")
        if agent is not None:
            model = event["about"].get("model")
            tally.agents[f"{agent} ({model})" if model else str(agent)] = None

    def _attempt_ended(self, event: Json) -> None:
        key = (event["frame"], event["node"])
        tally = self._of(*key)
        start = self._working.pop(key, event["at"])
        kinds: dict[str, Kind] = {"failed": "fail", "reminded": "work"}
        tally.draw(start, event["at"], kinds.get(event["why"], "cut"))
        tally.usage.add(event["result"])
        if event.get("rest_s"):
            self._resting[key] = event["at"]

    def _finished(self, event: Json) -> None:
        key = (event["frame"], event["node"])
        result = event["result"]
        status = str(result.get("status", "completed"))
        start = self._working.pop(key, None)
        # A step that was skipped, or refused before its program could start, was never announced.
        tally = self._of(*key) if start is not None else self._arrive(event)
        tally.visits -= status == "skipped" and start is None
        tally.statuses[status] = tally.statuses.get(status, 0) + 1
        tally.last = status
        tally.error = _message(result)
        if "provider" in result:
            tally.agents[str(result["provider"])] = None
        if "outcome" in result:
            name = str(result["outcome"])
            tally.outcomes[name] = tally.outcomes.get(name, 0) + 1
        tally.usage.add(result)
        if status != "skipped":
            began = start if start is not None else event["at"]
            took = result.get("duration_ms", (event["at"] - began) * 1000) / 1000
            tally.seconds += took
            tally.longest = max(tally.longest, took)
            good: Kind = "wait" if "wait_duration_ms" in result else "work"
            tally.draw(began, event["at"], "fail" if status == "failed" else good)
        tally.keep(Example(event["frame"], event["visit"], event["label"], event["at"], result))

    def _decided(self, event: Json) -> None:
        key = (event["frame"], event["node"])
        tally = self._of(*key)
        asked = self._asking.pop(key, event["at"])
        tally.draw(asked, event["at"], "wait")
        tally.last = event["decision"]
        tally.statuses[tally.last] = tally.statuses.get(tally.last, 0) + 1
        tally.seconds += event["at"] - asked
        tally.longest = max(tally.longest, event["at"] - asked)

    def _stretch_spans(self) -> None:
        """A loop or a call lasts until the last thing inside it has ended."""
        for tally in self.by_path.values():
            if tally.items is None and not any(bar.kind == "span" for bar in tally.bars):
                continue
            inside = [
                bar
                for other in self.by_path.values()
                if other.path.startswith((f"{tally.path}[*]/", f"{tally.path}()/"))
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


def path_of(frame: str, node: str) -> str:
    """How people name a step, with `[*]` for the items of a loop."""
    return _ITEM.sub("[*]", plain_path(frame, node))


def plain_path(frame: str, node: str) -> str:
    """How people name a step: `Loop[3]/Step`, whichever visit of the loop it is."""
    name = node.rpartition("/")[2].removesuffix("[]") if frame.endswith("]") else node
    where = _CALL.sub("()", _VISIT.sub(r"\1", frame))
    return f"{where}/{name}" if where else name


def _message(result: Json) -> str:
    error = result.get("error")
    if isinstance(error, dict) and error.get("message"):
        return str(error["message"])
    return str(result.get("reason") or "")
