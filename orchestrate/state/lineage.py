"""The run that another one is a fork of, and what the fork has of it.

origin/1/RUN_ID/events.jsonl    the journal of the run that was forked, as it was then; before it
                                those of the runs that it was a fork of itself
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrate.record import field, field_names, record
from orchestrate.state.earlier import Earlier
from orchestrate.state.model import RunState
from orchestrate.state.recorded import read_events
from orchestrate.state.runs import Run

ORIGIN = "origin"
# The number of a journal, of those that a run has with its own as the last, and of a line there.
Place = tuple[int, int]


@record
class Lineage:
    """`run` was forked before `step`; `edit` is the last of its edits. `redo` and `accept` are what
    a person said then, and `given` the names of the values that were given. What was begun `since`
    a place of the journals has left no files here: where a fork has those of a checkpoint."""

    run: str
    step: str
    edit: int
    redo: list[str] = field(default_factory=list)
    accept: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    since: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in field_names(self)}


def lineage_of(state: RunState) -> Lineage | None:
    return None if state.forked is None else Lineage(**state.forked)


def origin_journals(run: Run) -> Iterator[tuple[str, Path]]:
    """The journals that a fork has taken over, oldest first, each with its run."""
    folder = run.root / ORIGIN
    if folder.is_dir():
        for path in sorted(folder.glob("*/*/events.jsonl"), key=_number):
            yield path.parent.name, path


def journals_of(run: Run) -> list[Path]:
    """Those of the runs that it is a fork of, oldest first, and its own."""
    return [*(path for _, path in origin_journals(run)), run.events]


def _number(path: Path) -> int:
    return int(path.parent.parent.name)


def origin_of(run: Run) -> Earlier:
    """What the run had found that this one is a fork of; nothing if it is none."""
    earlier = Earlier()
    for run_id, path in origin_journals(run):
        for recorded in read_events(path):
            earlier.add(recorded.event)
        earlier.leave_origin(run_id)
    return earlier


def earlier_of(run: Run) -> Earlier:
    """What a run has found so far, with what the run that it is a fork of had."""
    earlier = origin_of(run)
    for recorded in read_events(run.events):
        earlier.add(recorded.event)
    return earlier


def forked_document(state: RunState) -> dict[str, Any]:
    """For programs: which run this one is a fork of; nothing of others."""
    lineage = lineage_of(state)
    return {} if lineage is None else {"forked": {"run_id": lineage.run, "from": lineage.step}}
