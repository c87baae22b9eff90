"""Finds a step of a run by what people call it, and what the step has printed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.record import record
from orchestrate.state.address import Address, FrameKey, address_in, log_name_in

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

# `prompt`: what was sent to an agent.
Stream = Literal["stdout", "stderr", "prompt"]
Results = dict[str, Any]
_MOST_NAMES = 8


@record
class Entry:
    """A step that has begun, with the attempt that its result is of.

    `why` says of an attempt that was not the last one why it has ended.
    """

    address: Address
    result: Results
    why: str = ""
    # A step may fail before anything of it is started.
    is_started: bool = True

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
        return self.result.get("status") == "running"

    @property
    def is_over(self) -> bool:
        """Has it ended? One that was stopped or lost, or rests before a retry, has not."""
        return self.result.get("status") in ("completed", "failed", "skipped")


class NoSuchStep(UsageError):
    """No step is called so, or it has not begun yet."""


def find_entry(run: Run, document: dict[str, Any], text: str) -> Entry:
    """The step that is meant: by its address, `Loop.3.Step`, or a name that is unique.

    A visit or attempt that is not the newest has its result in the journal only.
    """
    entries = list(entries_of(document))
    wanted = _address(text)
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


def find_entries(run: Run, document: dict[str, Any], text: str) -> list[Entry]:
    """The step that is meant, or with `[*]` the steps of all items of a loop."""
    if "[*]" not in text:
        return [find_entry(run, document, text)]
    wanted = _address(text)
    entries = list(entries_of(document))
    found = [entry for entry in entries if wanted is not None and wanted.covers(entry.address)]
    if not found:
        if wanted is not None:
            _refuse_outer(wanted, text, entries)
        raise NoSuchStep(f"no step '{text}' has run", _name_some(entries))
    return found


def _refuse_outer(wanted: Address, text: str, entries: list[Entry]) -> None:
    """A loop or a call prints nothing itself: the steps in it do."""
    inner = [entry for entry in entries if wanted.contains(entry.address)]
    if inner:
        raise UsageError(f"'{text}' is a loop or a call: say which step in it", _name_some(inner))


def attempts_in(run: Run) -> Iterator[Entry]:
    """Every attempt that has ended, oldest first, as the journal has it."""
    from orchestrate.state.journal import read_tail

    started: set[tuple[Any, ...]] = set()
    for recorded in read_tail(run.events):
        event = recorded.event
        key = tuple(event.get(name) for name in ("frame", "node", "visit"))
        match event.get("on"):
            case "step-started":
                started.add(key)
            case "attempt-ended" | "step-finished":
                why = event.get("why", "")
                yield Entry(address_in(event), event["result"], why, key in started)
                started.discard(key)
            case _:
                pass


def _address(text: str) -> Address | None:
    try:
        return Address.parse(text)
    except ValueError:
        return None


def was_at_work_since(result: Results, since: float) -> bool:
    """A step's output has no times of its own; its attempt has."""
    from orchestrate.state.times import seconds_of

    ended = result.get("completed_at")
    try:
        return ended is None or seconds_of(ended) >= since
    except ValueError:
        return True


def entries_of(document: dict[str, Any]) -> Iterator[Entry]:
    """Every step that has begun."""
    return _below(document.get("steps", {}), FrameKey())


def _name_some(entries: list[Entry]) -> str:
    if not entries:
        return "no step has begun yet"
    shown = ", ".join(entry.path for entry in entries[:_MOST_NAMES])
    return f"steps: {shown}" + (", …" if len(entries) > _MOST_NAMES else "")


def _below(results: Results, frame: FrameKey) -> Iterator[Entry]:
    """Every step below some results. A step's result knows its address; a call's place gives it."""
    for name, result in results.items():
        if isinstance(result, list):
            for index, inner in enumerate(result):
                yield from _below(inner, frame.item(name, index, 1))
        elif "status" in result:
            known = result.get("address")
            yield Entry(frame.step(name) if known is None else Address.parse(known), result)
            if isinstance(result.get("steps"), dict):
                yield from _below(result["steps"], frame.call(name, 1, 1))


def source_of(run: Run, entry: Entry, stream: Stream, *, is_raw: bool = False) -> Path | bytes:
    """Where the output is: a file in logs/ or, if it was short, the step's result.

    Of an agent that has answered, its answer counts, unless what its program printed is wanted.
    """
    if stream == "prompt":
        sent = run.logs / f"{entry.files}.prompt.txt"
        return sent if _is_file(sent) else b""
    if stream == "stdout" and "agent" in entry.result and not entry.is_running and not is_raw:
        answer = run.logs / f"{entry.files}.answer.txt"
        if _is_file(answer):
            return answer
    path = run.logs / f"{entry.files}.{stream}"
    if _is_file(path):
        return path
    return from_result(entry.result) if stream == "stdout" else b""


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def from_result(result: Results) -> bytes:
    match result:
        case {"output": str(text)}:
            return text.encode("utf-8", "surrogateescape")
        case {"lines": list(lines)}:
            return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        case {"json": value}:
            shown = json.dumps(value, indent=2, ensure_ascii=False)
            return (shown + "\n").encode("utf-8", "backslashreplace")
        case _:
            return b""
