"""Which runs a list shows, and in which order; no more of them are read than needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from orchestrate.record import record
from orchestrate.state.runs import Run
from orchestrate.view.run_summary import STATUSES, RunSummary, last_sign, summary_of

ORDERS = ("started", "updated", "duration", "status", "definition")


@record
class RunFilter:
    """Which runs are wanted; '' and empty ones say nothing."""

    statuses: frozenset[str]
    dialects: frozenset[str]
    definition: str
    # Beginnings of ids: an id begins with the second in which its run was started.
    since: str
    until: str

    def may_want(self, run: Run) -> bool:
        """What the id alone says, before anything is read."""
        return self.since <= run.id[: len(self.since)] and (
            not self.until or run.id[: len(self.until)] <= self.until
        )

    def wants(self, summary: RunSummary) -> bool:
        if self.statuses and self.statuses.isdisjoint((summary.status, summary.shown_status)):
            return False
        if not self.dialects and not self.definition:
            return True
        if self.dialects and summary.field("dialect") not in self.dialects:
            return False
        return _matches(str(summary.field("workflow_file") or ""), self.definition)


def _matches(path: str, wanted: str) -> bool:
    """Is the text a part of the path, or a pattern of it or of its last part?"""
    if not any(c in wanted for c in "*?["):
        return wanted.lower() in path.lower()
    from fnmatch import fnmatch

    return fnmatch(path, wanted) or fnmatch(path.rpartition("/")[2], wanted)


def choose(found: Iterator[RunSummary], limit: int) -> tuple[list[RunSummary], bool]:
    """The runs to show, and whether there are more; no more of them are read than needed."""
    chosen: list[RunSummary] = []
    for summary in found:
        if limit and len(chosen) == limit:
            return chosen, True
        chosen.append(summary)
    return chosen, False


def summaries_of(
    known: tuple[Run, ...], wanted: RunFilter, oldest_first: bool
) -> Iterator[RunSummary]:
    for run in reversed(known) if oldest_first else known:
        if wanted.may_want(run):
            summary = summary_of(run)
            if wanted.wants(summary):
                yield summary


def ordered(summaries: list[RunSummary], order: str, reverse: bool) -> list[RunSummary]:
    now = time.time()
    keys: dict[str, Callable[[RunSummary], Any]] = {
        "updated": lambda summary: str(summary.field("updated_at") or ""),
        "duration": lambda summary: elapsed_s(summary, now) or 0.0,
        "status": lambda summary: STATUSES.index(summary.status),
        "definition": lambda summary: str(summary.field("workflow_file") or ""),
    }
    # The latest and the longest come first, names from the beginning; equal ones newest first.
    return sorted(summaries, key=keys[order], reverse=(order in ("updated", "duration")) != reverse)


def elapsed_s(summary: RunSummary, now: float) -> float | None:
    """How long the run took, or has taken so far; of one that was killed, to its last sign."""
    fields = summary.fields()
    started = seconds_or_none(fields.get("started_at"))
    last = seconds_or_none(fields.get("completed_at") or fields.get("updated_at"))
    ended = now if summary.status == "running" else last
    if summary.status == "interrupted" and ended is not None:
        ended = last_sign(summary.run, ended, now)
    return None if started is None or ended is None else max(0.0, ended - started)


def seconds_or_none(text: Any) -> float | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError):
        return None
