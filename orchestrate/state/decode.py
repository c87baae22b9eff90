"""Reads `state.json` back: the whole of it as a document, or the state of the run.

The results of a loop's items stay JSON: there may be very many, and hardly any reader wants them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any

from orchestrate.exits import usual_finish
from orchestrate.plan.nodes import Finish, Goto, Target
from orchestrate.regex import regex
from orchestrate.state.address import name_in_block
from orchestrate.state.durable import compact_json, parse_json
from orchestrate.state.endings import ending_in
from orchestrate.state.item_results import ItemResults
from orchestrate.state.model import Frame, Index, Loop, RunState, Session, Visit
from orchestrate.state.pending_call import Postponed, Reserved
from orchestrate.state.result import Approval, Costs, SkippedStep, StepResult, read_denials
from orchestrate.state.seal import verify_seal
from orchestrate.state.working_time import Unwatched, WorkingTime

# Values have no line breaks: these are found nowhere but between items and loops.
_STEPS = b'\n  "steps": {\n'
_LOOP = regex(rb'^    ("(?:[^"\\]|\\.)*"): \[\n      ', re.MULTILINE)
_LOOP_END = b"\n    ]"
_BETWEEN_ITEMS = b",\n      "
# How far the loops are, which stands behind all that `steps` has.
_PROGRESS = b'\n  "for_each": {'

# The results of a loop's items, still as JSON, and split only when they are wanted.
_Items = Callable[[], list[bytes]]


def check_seal(content: bytes) -> dict[str, Any]:
    """The document, if it is whole and as we wrote it; a `ValueError` says what is not."""
    verify_seal(content)
    return _parse(content)


def _parse(content: bytes) -> dict[str, Any]:
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError("it is not a state file")
    return document


def check_state(content: bytes, run_id: str) -> dict[str, Any]:
    """The document, if it is whole and this run's; another run's may have been copied here."""
    return _require_own(check_seal(content), run_id)


def _require_own(document: dict[str, Any], run_id: str) -> dict[str, Any]:
    if document.get("run_id") != run_id:
        raise ValueError(f"it belongs to run {document.get('run_id')}")
    return document


def decode(index: Index | None, content: bytes, run_id: str) -> RunState:
    """The state again; `ValueError` if it is not one of ours, or of another run or program.

    Without the plans it can be read, but not continued.
    """
    verify_seal(content)
    rest, items = _without_items(content)
    document = _require_own(_parse(rest), run_id)
    try:
        return _decode(index, document, items)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"it does not fit the definition: {error!r}") from None


def _without_items(content: bytes) -> tuple[bytes, dict[str, _Items]]:
    """The file without the items of the main block's loops, and those by loop, still as JSON."""
    found: dict[str, _Items] = {}
    pieces: list[bytes] = []
    end = 0
    start = content.find(_STEPS)
    behind = content.rfind(_PROGRESS)
    while start >= 0 and (match := _LOOP.search(content, start, behind)) is not None:
        stop = content.index(_LOOP_END, match.end())
        found[json.loads(match[1])] = _items_between(content, match.end(), stop)
        pieces.append(content[end : match.end()])
        end = start = stop
    pieces.append(content[end:])
    return b"".join(pieces), found


def _items_between(content: bytes, start: int, stop: int) -> _Items:
    return cache(lambda: content[start:stop].split(_BETWEEN_ITEMS))


def _decode(index: Index | None, document: dict[str, Any], items: dict[str, _Items]) -> RunState:
    engine = document["engine"]
    started, updated, completed, *stopped = engine["times"]
    state = RunState(
        run_id=document["run_id"],
        workspace=engine["workspace"],
        definition=document["workflow_file"],
        dialect=document["dialect"],
        schema_version=document["schema_version"],
        checksum=document["workflow_checksum"],
        sources=document["sources"],
        settings=document["settings"],
        version=document["orchestrate_version"],
        started_at=started,
        updated_at=updated,
        completed_at=completed,
        stopped_at=stopped[0] if stopped else None,
        root=Frame(key="", plan="", block=""),
        status=document["status"],
        reason=document["reason"],
        restart=engine["restart"],
        seq=document["seq"],
        synced=engine["synced"],
        clock=engine["clock"],
        place=engine.get("place", ""),
        steps_run=engine["steps_run"],
        calls=engine.get("calls", 0),
        near=engine.get("near", []),
        worked=WorkingTime(*engine.get("worked", ())),
        unwatched=Unwatched(*engine.get("unwatched", ())),
        restarts=engine["restarts"],
        has_failures=engine["has_failures"],
        session=Session(**engine["session"]),
        costs=Costs(**document.get("costs", {})),
        denials=read_denials(document.get("denials", ())),
        approvals=[Approval(**gate) for gate in document.get("approvals", engine["approvals"])],
        skipped=[SkippedStep(**s) for s in document.get("skipped_steps", engine["skipped"])],
        machine_started=engine["machine_started"],
        late=engine["late"],
        earlier_visits=engine["earlier_visits"],
        # Versions before 0.2 did not keep these.
        current=engine.get("current", ""),
        retry_counts=engine.get("retry_counts", {}),
        worktree=engine.get("worktree"),
        forked=engine.get("forked"),
        checkpoint=engine.get("checkpoint", {}),
    )
    edit = (*engine.get("edit", (0, 0, None)), 0)
    state.edit, state.reused, state.saved_usd, state.saved_ms = edit[:4]
    if index is not None:
        index.turn_to(state.edit)
    state.ending = ending_in(document)
    reader = _Reader(index, document["for_each"], items, state.frames)
    state.root = reader.frame(engine["root"], document["steps"], None)
    state.root.variables = document["context"]
    state.root.outputs = document.get("outputs")
    state.root.undefined = document.get("outputs_undefined", {})
    return state


def _read_target(written: dict[str, Any]) -> Target:
    if "goto" in written:
        return Goto(written["goto"])
    return Finish(written["finish"], written.get("end") or usual_finish(written["finish"]))


def _read_visit(written: list[Any]) -> Visit:
    here = Visit(*written)
    reserved: Any = here.reserved
    waits: Any = here.waits
    # An older version may have written less than all fields.
    if not isinstance(reserved, Reserved):
        here.reserved = Reserved.from_json(reserved)
    if not isinstance(waits, Postponed):
        here.waits = Postponed.from_json(waits)
    return here


class _Reader:
    """Builds the frames again from the engine's part and the results under `steps`."""

    def __init__(
        self,
        index: Index | None,
        progress: dict[str, Any],
        items: dict[str, _Items],
        frames: dict[str, Frame],
    ) -> None:
        self._index = index
        self._progress = progress
        self._items = items
        self._frames = frames

    def frame(
        self, written: dict[str, Any], results: dict[str, Any], parent: Frame | None
    ) -> Frame:
        frame = Frame(
            key=written["key"],
            plan=written["plan"],
            block=written["block"],
            parent=parent,
            variables=written.get("variables", {}),
            visits=written.get("visits", {}),
            label=written.get("label", ""),
            moving=written.get("moving"),
            approval=written.get("approval"),
            owner=written.get("owner", ""),
            began=written.get("began", 0.0),
            count=written.get("count", 0),
            sessions=written.get("sessions", {}),
            costs=Costs(**written.get("costs", {})),
            calls=written.get("calls", 0),
            worked_before=written.get("worked_before", 0.0),
            anew=written.get("anew", ""),
            turns=written.get("turns", []),
            spread=written.get("spread", ""),
            merges=written.get("merges", []),
            conflicts=written.get("conflicts", []),
        )
        if self._index is not None:
            self._index.block(frame.plan, frame.block)
        if "here" in written:
            frame.here = _read_visit(written["here"])
        if "then" in written:
            frame.then = _read_target(written["then"])
        self._frames[frame.key] = frame
        loops = written.get("loops", {})
        names = {loop["name"] for loop in loops.values()}
        frame.steps = {
            name: StepResult.from_json(result)
            for name, result in results.items()
            if name not in names and not (name == "lifecycle" and parent is not None)
        }
        for node, loop in loops.items():
            if parent is None and loop["name"] in self._items:
                pieces = self._items[loop["name"]]
            else:
                pieces = partial(list, [compact_json(one) for one in results.get(loop["name"], [])])
            frame.loops[node] = self._loop(frame, node, loop, pieces)
        if "call" in written:
            frame.call = self._call(frame, written["call"])
        return frame

    def _loop(self, frame: Frame, node: str, written: dict[str, Any], results: _Items) -> Loop:
        items = written["items"] if "items" in written else self._progress[written["name"]]["items"]
        loop = Loop(
            node,
            written["name"],
            items,
            next_index=written["next"],
            values={int(position): value for position, value in written.get("values", {}).items()},
            failed=written["failed"],
            is_stopping=written["stopping"],
            is_closed=written["closed"],
            spread=written.get("spread", ""),
            label=written.get("label", ""),
        )
        opened = {int(position): inner for position, inner in written["open"].items()}
        loop.done = self._done(loop, opened, results)
        for position, inner in opened.items():
            child = self.frame(inner, json.loads(results()[position]), frame)
            child.index = position
            child.item = items[position]
            each = self._each(frame, node)
            is_bounded = each is not None and each.rounds is not None
            child.total = each.limit if is_bounded else len(items)
            child.variable = str(each.variable) if each is not None else ""
            loop.open[position] = child
        return loop

    def _done(self, loop: Loop, opened: Collection[int], results: _Items) -> ItemResults:
        def read() -> dict[int, bytes]:
            return {
                position: result
                for position, result in enumerate(results()[: loop.next_index])
                if position not in opened
            }

        progress = self._progress.get(loop.name)
        if progress is None or loop.items is not progress["items"]:
            found = read()
            return ItemResults(len(found), lambda: found)
        return ItemResults(len(progress["completed_indices"]), read)

    def _each(self, frame: Frame, node: str) -> Any:
        """The loop's op; None for a reader without the plan."""
        return None if self._index is None else self._index.place(frame.plan, node).node.op

    def _call(self, frame: Frame, written: dict[str, Any]) -> Frame:
        assert frame.here is not None
        name = name_in_block(frame.here.node, frame.block)
        calling = frame.steps[name]
        frame.steps[name] = calling.without("steps")
        return self.frame(written, dict(calling.steps), frame)
