"""A run in short, for lists of thousands: the first lines of its state file, and its lock."""

from __future__ import annotations

import json
import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrate.errors import OrchestrateError, StateError
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.durable import read_file
from orchestrate.state.elsewhere import shown_run
from orchestrate.state.events import Gap, RunEnded, RunResumed, RunStarted
from orchestrate.state.journal import refuse_foreign
from orchestrate.state.locks import is_held
from orchestrate.state.marks import marks_of
from orchestrate.state.recorded import last_recorded, read_events
from orchestrate.state.runs import ELSEWHERE, Run
from orchestrate.state.times import timestamp

# What a state file says, and what only we can say: a run on another machine is `unknown` here.
STATUSES = (
    "running", "interrupted", "paused", "completed", "failed", "cancelled", "damaged", "unknown",
)  # fmt: skip
# These cannot be resumed.
FINAL = ("completed", "cancelled")

_HEADER = ("dialect", "workflow_file", "started_at", "updated_at", "completed_at", "rehearsal",
           "run_step", "status", "reason")  # fmt: skip
# Why a run is paused that needs no decision.
_STOPPED = ("interrupted", "terminated")
# Values have no line breaks, so a line that begins like this is the field itself.
_STATUS = regex(rb'\n  "status": "([a-z]+)",\n  "reason": .*\n')
# The status stands at the top; only a run of very many files, or with much to say, needs more.
_SIZES = (2048, 64 * 1024, 4 * 1024 * 1024)


@record
class RunSummary:
    """A run as a list shows it; `start` is the beginning of its state file."""

    run: Run
    status: str
    start: bytes

    @property
    def shown_status(self) -> str:
        """One word for people: who stops a run and who kills it has interrupted it."""
        is_stopped = self.status == "paused" and self.field("reason") in _STOPPED
        return "interrupted" if is_stopped else self.status

    @property
    def marks(self) -> dict[str, Any]:
        """Was it a rehearsal, or one step alone? Then it did not do the whole work."""
        return {"rehearsal": bool(self.field("rehearsal")), "run_step": self.field("run_step")}

    def fields(self) -> dict[str, Any]:
        """The first fields of the state file; few of many runs are shown, so they are read late."""
        found = {name: self.field(name) for name in _HEADER}
        return {name: value for name, value in found.items() if value is not None}

    def field(self, name: str) -> Any:
        """One of them; None if it is not there, or if the file was edited."""
        key = b'\n  "%b": ' % name.encode()
        at = self.start.find(key)
        if at < 0:
            return None
        begin = at + len(key)
        value = self.start[begin : self.start.find(b"\n", begin)].removesuffix(b",")
        if value[:1] == value[-1:] == b'"' and b"\\" not in value and len(value) > 1:
            return value[1:-1].decode("ascii", "replace")
        try:
            return json.loads(value)
        except ValueError:
            return None


def may_go_on_elsewhere(run: Run) -> bool:
    """Is it on another machine, and not over by what it has published?"""
    is_away = summary_of(run).status == "unknown"
    return is_away and summary_of(shown_run(run)).status not in FINAL


def summary_of(run: Run) -> RunSummary:
    """The run in short, from the first lines of its state file: there may be thousands."""
    try:
        status, start = _read_start(run)
        if status in FINAL:
            return RunSummary(run, status, start)
        if os.path.lexists(run.root / ELSEWHERE):
            return RunSummary(run, "unknown", start)
        if is_held(run.lock_file):
            return RunSummary(run, "running", start)
        if status == "running":
            # It may have ended between the two reads.
            status, start = _read_start(run)
            status = _left_as(run) if status == "running" else status
        return RunSummary(run, status, start)
    except (ValueError, OSError, OrchestrateError):
        pass
    if os.path.lexists(run.root / ELSEWHERE) and not os.path.lexists(run.state):
        return _summary_of_stub(run)
    try:
        return _summary_from_journal(run)
    except (ValueError, OSError, KeyError, TypeError, OrchestrateError):
        return RunSummary(run, "damaged", b"")


def _summary_of_stub(run: Run) -> RunSummary:
    """What this machine knows of a run on another one."""
    document = {}
    with suppress(ValueError, OSError, OrchestrateError):
        document = json.loads(read_file(run.root / ELSEWHERE) or b"{}")
    named = json.dumps(document.get("file", ""))
    return RunSummary(run, "unknown", f'\n  "workflow_file": {named},\n'.encode())


def _summary_from_journal(run: Run) -> RunSummary:
    """The run in short where its state file does not hold, but its journal does.

    All of the journal is read, which only a damaged run is worth.
    """
    # What is not a readable file, its owner has to repair first.
    read_file(run.state)
    refuse_foreign(run.events, run.id)
    events = (recorded.event for recorded in read_events(run.events))
    first = next(events, None)
    if not isinstance(first, RunStarted):
        raise StateError("the journal does not begin with the start of the run")
    ended: RunEnded | None = None
    at = first.at
    for event in events:
        at = at if isinstance(event, Gap) else max(at, event.at)
        if isinstance(event, RunEnded | RunResumed):
            ended = event if isinstance(event, RunEnded) else None
    fields = {
        "dialect": first.dialect,
        "workflow_file": first.definition,
        "started_at": timestamp(first.at),
        "updated_at": timestamp(at),
        **marks_of(first.settings),
    }
    status = "interrupted"
    if is_held(run.lock_file):
        status = "running"
    elif ended is not None:
        status = ended.status
        fields |= {"reason": ended.reason}
        fields |= {"completed_at": timestamp(ended.at)} if status != "paused" else {}
    # As a state file begins, so that a summary is read like any other.
    start = "".join(f'\n  "{name}": {json.dumps(value)},' for name, value in fields.items())
    return RunSummary(run, status, start.encode() + b"\n")


def _left_as(run: Run) -> str:
    """The status of a run without a process whose state file has no end.

    The journal may have it: its writer was killed before the state file was updated.
    """
    last = last_recorded(run.events)
    return last.status if isinstance(last, RunEnded) else "interrupted"


def _read_start(run: Run) -> tuple[str, bytes]:
    """The status that a state file says, and the file up to there."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(run.state, flags)
    try:
        for size in _SIZES:
            start = os.pread(descriptor, size, 0)
            match = _STATUS.search(start)
            if match is not None:
                if b'\n  "run_id": "%b",\n' % run.id.encode() not in start:
                    raise ValueError("it belongs to another run")
                return match[1].decode(), start[: match.end()]
            if len(start) < size:
                break
    finally:
        os.close(descriptor)
    raise ValueError("it has no status")


def last_sign(run: Run, recorded: float, now: float) -> float:
    """When a run that was killed was at work last: now, as long as a program of it still is.

    Else the later of what it has recorded and of what its programs have printed since.
    """
    if _are_programs_at_work(run.root / "keeper"):
        return now
    return max(recorded, min(last_written(run), now))


def _are_programs_at_work(keeper: Path) -> bool:
    """A keeper leaves a note beside its lock of each program that takes its time."""
    with suppress(OSError, OrchestrateError):
        noted = any(name.startswith("at-work-") for name in os.listdir(keeper))
        return noted and is_held(keeper / "keeper.lock")
    return False


def last_written(run: Run, besides: Container[str] = ()) -> float:
    """When a file of the run, but for some names, was changed last; 0 if that cannot be told."""
    times = [0.0]
    for folder in (run.root / "keeper", run.logs):
        with suppress(OSError), os.scandir(folder) as entries:
            times += [
                entry.stat(follow_symlinks=False).st_mtime
                for entry in entries
                if entry.name not in besides
            ]
    return max(times)
