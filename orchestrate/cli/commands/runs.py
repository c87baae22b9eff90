"""`orchestrate runs`: the runs of a workspace, newest first, with the truth about each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.runs_folder import runs_of
from orchestrate.cli.moments import moment_of
from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.record import record
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.show.runs_table import elapsed_s, runs_table, summary_json
from orchestrate.state.runs import Run, id_beginning, list_runs
from orchestrate.view.place import Place
from orchestrate.view.run_summary import STATUSES, RunSummary, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterator


_DIALECTS = ("machine", "recipe", "workflow")
_ORDERS = ("started", "updated", "duration", "status", "definition")


@record
class Wanted:
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


@click.command(short_help="List the runs of the workspace.")
@click.option("--limit", type=AT_LEAST_0, default=20, metavar="N",
              help="Show at most this many runs; 0: all (default: 20).")  # fmt: skip
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True,
              help="Only runs with this status; repeatable.")  # fmt: skip
@click.option("--dialect", "dialects", type=click.Choice(_DIALECTS), multiple=True,
              help="Only runs of this dialect; repeatable.")  # fmt: skip
@click.option("--definition", "--name", "definition", default="", metavar="TEXT",
              help="Only runs of definitions whose path contains TEXT, or matches it with * and ?.")  # fmt: skip  # noqa: E501
@click.option("--since", metavar="WHEN",
              help="Only runs started since then: an age (2h), or a date or time.")  # fmt: skip
@click.option("--until", metavar="WHEN", help="Only runs started before then.")
@click.option("--sort", "order", type=click.Choice(_ORDERS), default="started",
              help="Order: newest, last changed or longest first; or by name.")  # fmt: skip
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@state_dir_option
@working_dir_option
@json_option
def runs(
    limit: int,
    order: str,
    reverse: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **filters: Any,
) -> int:
    """List the runs of the workspace, newest first.

    A run whose process is gone is `interrupted`; one of which neither the state nor the journal can
    be read is `damaged`. WHEN is an age such as 90m or 7d, or a date or time.
    """
    wanted = _wanted(filters)
    folder = runs_of(Place(working_dir, state_dir), tell_fault=note_once)
    known = list_runs(folder)
    found = _summaries(known, wanted, reverse and order == "started")
    if order != "started":
        found = iter(_sorted(list(found), order, reverse))
    chosen, more = _choose(found, limit)
    if as_json:
        answer_json({"runs": [summary_json(summary) for summary in chosen], "more": more})
    elif not known:
        answer(f"There are no runs in {folder.folder}.\n")
    elif not chosen:
        answer("There are no such runs.\n")
    else:
        answer(runs_table(chosen))
        if more:
            answer("There are more; --limit 0 shows all.\n")
    return 0


def _wanted(filters: dict[str, Any]) -> Wanted:
    since, until = filters["since"], filters["until"]
    now = time.time()
    return Wanted(
        statuses=frozenset(filters["statuses"]),
        dialects=frozenset(filters["dialects"]),
        definition=filters["definition"],
        since="" if since is None else id_beginning(moment_of("--since", since, now)),
        until="" if until is None else id_beginning(moment_of("--until", until, now)),
    )


def _choose(found: Iterator[RunSummary], limit: int) -> tuple[list[RunSummary], bool]:
    """The runs to show, and whether there are more; no more of them are read than needed."""
    chosen: list[RunSummary] = []
    for summary in found:
        if limit and len(chosen) == limit:
            return chosen, True
        chosen.append(summary)
    return chosen, False


def _summaries(known: tuple[Run, ...], wanted: Wanted, oldest_first: bool) -> Iterator[RunSummary]:
    for run in reversed(known) if oldest_first else known:
        if wanted.may_want(run):
            summary = summary_of(run)
            if wanted.wants(summary):
                yield summary


def _sorted(summaries: list[RunSummary], order: str, reverse: bool) -> list[RunSummary]:
    now = time.time()
    keys: dict[str, Callable[[RunSummary], Any]] = {
        "updated": lambda summary: str(summary.field("updated_at") or ""),
        "duration": lambda summary: elapsed_s(summary, now) or 0.0,
        "status": lambda summary: STATUSES.index(summary.status),
        "definition": lambda summary: str(summary.field("workflow_file") or ""),
    }
    # The latest and the longest come first, names from the beginning; equal ones newest first.
    return sorted(summaries, key=keys[order], reverse=(order in ("updated", "duration")) != reverse)
