"""Finds a step of a run by what people call it, and what the step has printed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.record import record, replace
from orchestrate.state.address import Address, FrameKey, Item, log_name_in, shown_path
from orchestrate.state.events import (
    AttemptEnded,
    StepFinished,
    StepStarted,
    attempt_of,
)
from orchestrate.state.recorded import read_events
from orchestrate.state.result import Approval, StepResult
from orchestrate.state.rounds import step_of_part
from orchestrate.state.times import seconds_of

if TYPE_CHECKING:
    from orchestrate.state.model import Frame, RunState
    from orchestrate.state.runs import Run

# `prompt`: what was sent to an agent.
Stream = Literal["stdout", "stderr", "prompt"]
_MOST_NAMES = 8


@record
class StepLog:
    """A step that has begun, with the attempt that its result is of.

    `why` says of an attempt that was not the last one why it has ended.
    """

    address: Address
    result: StepResult
    why: str = ""
    # A step may fail before anything of it is started.
    is_started: bool = True
    # Of a gate that is a step: how it was decided.
    gate: Approval | None = None

    @property
    def path(self) -> str:
        return self.address.step.shown

    @property
    def name(self) -> str:
        return self.address.name

    @property
    def files(self) -> str:
        """What the names of its logs begin with."""
        return log_name_in(self.result) or self.address.log_name()

    @property
    def is_running(self) -> bool:
        return self.result.status == "running"

    @property
    def is_over(self) -> bool:
        """Has it ended? One that was stopped or lost, or rests before a retry, has not."""
        return self.result.status in ("completed", "failed", "skipped")


class NoSuchStep(UsageError):
    """No step is called so, or it has not begun yet."""


def find_entry(run: Run, state: RunState, text: str) -> StepLog:
    """The step that is meant: by its address, `Loop.3.Step`, or a name that is unique.

    A visit or attempt that is not the newest has its result in the journal only.
    """
    wanted = _address(text)
    if wanted is not None:
        # A loop may have thousands of items: those that are not meant are not looked at.
        near_by = entries_of(state, [wanted.frame])
        found = next((entry for entry in near_by if wanted.covers(entry.address)), None)
        if found is not None:
            return found
    entries = list(entries_of(state))
    for entry in entries:
        if (wanted is not None and wanted.covers(entry.address)) or text == entry.address.dotted:
            return entry
    by_name = [entry for entry in entries if entry.name == text]
    if len(by_name) == 1:
        return by_name[0]
    if wanted is not None:
        _refuse_outer(wanted, text, entries)
    if by_name:
        raise UsageError(f"there are {len(by_name)} steps '{text}'", _name_some(by_name))
    if wanted is not None:
        for entry in reversed(list(attempts_in(run))):
            if wanted.covers(entry.address):
                return entry
    near = closest(text, dict.fromkeys(n for entry in entries for n in (entry.name, entry.path)))
    also = f" (did you mean '{near}'?)" if near else ""
    raise NoSuchStep(f"no step '{text}' has run{also}", _name_some(entries))


def find_entries(run: Run, state: RunState, text: str) -> list[StepLog]:
    """The step that is meant, or with `[*]` the steps of all items of a loop."""
    if "[*]" not in text:
        entry = find_entry(run, state, text)
        return [replace(entry, gate=_gate_of(state, entry))]
    wanted = _address(text)
    entries = list(entries_of(state))
    found = [entry for entry in entries if wanted is not None and wanted.covers(entry.address)]
    if not found:
        if wanted is not None:
            _refuse_outer(wanted, text, entries)
        raise NoSuchStep(f"no step '{text}' has run", _name_some(entries))
    return [replace(entry, gate=_gate_of(state, entry)) for entry in found]


def with_rounds(state: RunState, entry: StepLog) -> list[StepLog]:
    """A step, and behind it the rounds that its check has asked for in the same visit."""
    return [
        entry,
        *(
            one
            for one in entries_of(state)
            if step_of_part(one.name) == (entry.name, "round")
            and one.address.frame == entry.address.frame
            and one.result.started_at >= entry.result.started_at
        ),
    ]


def _gate_of(state: RunState, entry: StepLog) -> Approval | None:
    """The newest decision of the gate that the step is."""
    if not entry.result.has("decision_message"):
        return None
    decided = (gate for gate in reversed(state.approvals) if gate.status != "pending")
    return next((g for g in decided if shown_path(g.frame, g.node) == entry.path), None)


def _refuse_outer(wanted: Address, text: str, entries: list[StepLog]) -> None:
    """A loop or a call prints nothing itself: the steps in it do."""
    inner = [entry for entry in entries if wanted.contains(entry.address)]
    if inner:
        raise UsageError(f"'{text}' is a loop or a call: name the step in it", _name_some(inner))


def attempts_in(run: Run) -> Iterator[StepLog]:
    """Every attempt that has ended, oldest first, as the journal has it."""
    started: set[tuple[str, str, int]] = set()
    for recorded in read_events(run.events):
        event = recorded.event
        if not isinstance(event, StepStarted | AttemptEnded | StepFinished):
            continue
        visited = (event.frame, event.node, event.visit)
        if isinstance(event, StepStarted):
            started.add(visited)
            continue
        why = event.why if isinstance(event, AttemptEnded) else ""
        yield StepLog(attempt_of(event), event.result, why, visited in started)
        started.discard(visited)


def _address(text: str) -> Address | None:
    try:
        return Address.typed(text)
    except ValueError:
        return None


def was_at_work_since(result: StepResult, since: float) -> bool:
    """A step's output has no times of its own; its attempt has."""
    try:
        return not result.completed_at or seconds_of(result.completed_at) >= since
    except ValueError:
        return True


def entries_of(state: RunState, frames: Collection[FrameKey] | None = None) -> Iterator[StepLog]:
    """Every step that has begun; with `frames`, of the main block's loops their items only."""
    wanted = None
    if frames is not None:
        parts = (frame.parts[0] for frame in frames if frame.parts)
        wanted = {part.index for part in parts if isinstance(part, Item)}
    return _in_frame(state.root, FrameKey(), wanted)


def _in_frame(
    frame: Frame, key: FrameKey, positions: Collection[int | None] | None = None
) -> Iterator[StepLog]:
    for name, result in frame.steps.items():
        yield _entry(name, result, key)
        if frame.call is not None and frame.call.owner == name:
            yield from _in_frame(frame.call, key.call(name, 1, 1))
        else:
            yield from _below(result.steps, key.call(name, 1, 1))
    for loop in frame.loops.values():
        for position in sorted({*loop.done, *loop.open}):
            if positions is not None and position not in positions:
                continue
            item = key.item(loop.name, position, 1)
            if position in loop.open:
                yield from _in_frame(loop.open[position], item)
            else:
                yield from _below(json.loads(loop.done[position]), item)


def _entry(name: str, result: StepResult, frame: FrameKey) -> StepLog:
    """A step's result knows its address; a call's place gives it."""
    return StepLog(Address.parse(result.address) if result.address else frame.step(name), result)


def _name_some(entries: list[StepLog]) -> str:
    if not entries:
        return "no step has begun yet"
    shown = ", ".join(entry.path for entry in entries[:_MOST_NAMES])
    return f"steps: {shown}" + (", …" if len(entries) > _MOST_NAMES else "")


def _below(results: Mapping[str, Any], frame: FrameKey) -> Iterator[StepLog]:
    """Every step below some results that have been written down."""
    for name, result in results.items():
        if isinstance(result, list):
            for index, inner in enumerate(result):
                yield from _below(inner, frame.item(name, index, 1))
        elif "status" in result:
            found = StepResult.from_json(result)
            yield _entry(name, found, frame)
            yield from _below(found.steps, frame.call(name, 1, 1))


def source_of(run: Run, entry: StepLog, stream: Stream, *, is_raw: bool = False) -> Path | bytes:
    """Where the output is: a file in logs/ or, if it was short, the step's result.

    Of an agent that has answered, its answer counts, unless what its program printed is wanted.
    """
    if stream == "prompt":
        sent = run.logs / f"{entry.files}.prompt.txt"
        return sent if _is_file(sent) else b""
    is_answered = entry.result.agent is not None and not entry.is_running
    if stream == "stdout" and is_answered and not is_raw:
        answer = run.logs / f"{entry.files}.answer.txt"
        if _is_file(answer):
            return answer
    path = run.logs / f"{entry.files}.{stream}"
    if _is_file(path):
        return path if entry.is_running or path.stat().st_size else b""
    return from_result(entry.result) if stream == "stdout" else b""


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def from_result(result: StepResult) -> bytes:
    if result.has("json"):
        shown = json.dumps(result.json, indent=2, ensure_ascii=False)
        return (shown + "\n").encode("utf-8", "backslashreplace")
    text = _printed_in(result) or "".join(f"{line}\n" for line in result.lines)
    return text.encode("utf-8", "surrogateescape")


def _printed_in(result: StepResult) -> str:
    """The standard output: a check that failed has its standard error behind that, for the agent
    that is to mend it."""
    text, error = result.output, result.error
    if error is None or result.output_capture or not error.stderr_tail:
        return text
    if not text.endswith(error.stderr_tail[-1]):
        return text
    printed = "".join(f"{line}\n" for line in error.stdout_tail)
    at = text.rfind(printed) if printed else 0
    return text if at < 0 else text[: at + len(printed)]
