"""Finds a step of a run by what people call it, and what the step has printed."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.record import record
from orchestrate.state.runs import file_name_for

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

Stream = Literal["stdout", "stderr"]
Results = dict[str, Any]
_MOST_NAMES = 8


@record
class Entry:
    """A step that has begun. `path` is `Loop[3]/Step`; `files` begins the names of its logs."""

    path: str
    dotted: str
    name: str
    files: str
    result: Results

    @property
    def is_running(self) -> bool:
        return self.result.get("status") == "running"

    @property
    def is_over(self) -> bool:
        """Has it ended? One that was stopped or lost, or rests before a retry, has not."""
        return self.result.get("status") in ("completed", "failed", "skipped")


class NoSuchStep(UsageError):
    """No step is called so, or it has not begun yet."""


def find_entry(document: dict[str, Any], text: str) -> Entry:
    """The step that is meant: by `Loop[3]/Step`, `Loop.3.Step`, or a name that is unique."""
    by_name = []
    entries = list(entries_of(document))
    for entry in entries:
        if text in (entry.path, entry.dotted, entry.path.replace("()", ""), _as_once_logged(entry)):
            return entry
        if entry.name == text:
            by_name.append(entry)
    if len(by_name) == 1:
        return by_name[0]
    if by_name:
        raise UsageError(f"there are {len(by_name)} steps '{text}'", _name_some(by_name))
    inner = [entry for entry in entries if entry.path.startswith((f"{text}[", f"{text}()/"))]
    if inner:
        raise UsageError(f"'{text}' is a loop or a call: say which step in it", _name_some(inner))
    near = closest(text, dict.fromkeys(n for entry in entries for n in (entry.name, entry.path)))
    also = f" (did you mean '{near}'?)" if near else ""
    raise NoSuchStep(f"no step '{text}' has run{also}", _name_some(entries))


def _as_once_logged(entry: Entry) -> str:
    """`Loop[3]/Loop/Step`, as logs of earlier runs have it: the place, and then the step's id."""
    place, _, name = entry.path.rpartition("/")
    within = re.sub(r"\[\d+\]", "", place.rpartition("()/")[2])
    return f"{place}/{within}/{name}" if place and within != name else f"{place}/{name}[]"


def find_entries(document: dict[str, Any], text: str) -> list[Entry]:
    """The step that is meant, or with `[*]` the steps of all items of a loop."""
    if "[*]" not in text:
        return [find_entry(document, text)]
    pattern = re.compile(re.escape(text).replace(r"\[\*\]", r"\[\d+\]"))
    found = [
        entry
        for entry in entries_of(document)
        if pattern.fullmatch(entry.path) or pattern.fullmatch(entry.path.replace("()", ""))
    ]
    if not found:
        raise NoSuchStep(f"no step '{text}' has run", _name_some(list(entries_of(document))))
    return found


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
    return _below(document.get("steps", {}), "", "", "")


def _name_some(entries: list[Entry]) -> str:
    if not entries:
        return "no step has begun yet"
    shown = ", ".join(entry.path for entry in entries[:_MOST_NAMES])
    return f"steps: {shown}" + (", …" if len(entries) > _MOST_NAMES else "")


def _below(results: Results, path: str, dotted: str, files: str) -> Iterator[Entry]:
    """Every step below some results, with the names that its place gives it."""
    for name, result in results.items():
        if isinstance(result, list):
            loop = file_name_for(name)
            for index, inner in enumerate(result):
                place = (f"{path}{name}[{index}]/", f"{dotted}{name}.{index}.")
                yield from _below(inner, *place, f"{files}{loop}.{index}.")
        elif "status" in result:
            own = f"{files}{file_name_for(name)}"
            yield Entry(f"{path}{name}", f"{dotted}{name}", name, own, result)
            if isinstance(result.get("steps"), dict):
                place = (f"{path}{name}()/", f"{dotted}{name}.")
                yield from _below(result["steps"], *place, f"{own}.")


def source_of(run: Run, entry: Entry, stream: Stream, *, is_raw: bool = False) -> Path | bytes:
    """Where the output is: a file in logs/ or, if it was short, the step's result.

    Of an agent that has answered, its answer counts, unless what its program printed is wanted.
    """
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
