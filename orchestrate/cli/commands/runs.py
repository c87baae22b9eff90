"""`orchestrate runs`: the runs of a workspace, newest first, with the truth about each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from orchestrate.app.moments import moment_of
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, place_options
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.errors import UsageError
from orchestrate.record import replace
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.show.runs_table import runs_table, summary_json
from orchestrate.state.runs import ELSEWHERE, Run, id_beginning, list_runs
from orchestrate.view.place import Place
from orchestrate.view.run_list import ORDERS, RunFilter, choose, ordered, summaries_of
from orchestrate.view.run_summary import STATUSES, RunSummary, summary_of

_DIALECTS = ("machine", "recipe", "workflow")
_list_fleet = later("fleet.list_runs:list_fleet")
_ask_their_machines: Callable[..., Any] = later("fleet.away:with_their_status")


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
@click.option("--sort", "order", type=click.Choice(ORDERS), default="started",
              help="Order: newest, last changed or longest first; or by name.")  # fmt: skip
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--fleet", "of_fleet", is_flag=True,
              help="All runs of the server and the machines of fleet.yaml instead.")  # fmt: skip
@place_options
@json_option
def runs(
    limit: int,
    order: str,
    reverse: bool,
    of_fleet: bool,
    place: Place,
    as_json: bool,
    **filters: Any,
) -> int:
    """List the runs of the workspace, newest first.

    A run whose process is gone is `interrupted`; one of which neither the state nor the journal can
    be read is `damaged`; one on a machine that does not answer is `unknown`. WHEN is an age such
    as 90m or 7d, or a date or time.
    """
    wanted, statuses = _wanted(filters), filters["statuses"]
    if of_fleet:
        if wanted.dialects or wanted.definition or order != "started" or reverse:
            raise UsageError(
                "--fleet cannot be used with --dialect, --definition, --sort or --reverse",
                "a server knows ids, pools, times and statuses, and lists the newest run first",
            )
        return _list_fleet(wanted, limit, as_json=as_json)
    folder = runs_of(place, tell_fault=note_once)
    known = list_runs(folder)
    open_to = replace(wanted, statuses=wanted.statuses | {"unknown"}) if statuses else wanted
    found = summaries_of(known, open_to, reverse and order == "started")
    if statuses:
        found = _as_they_stand(found, known, wanted)
    if order != "started":
        found = iter(ordered(list(found), order, reverse))
    chosen, more = choose(found, limit)
    if any(summary.status == "unknown" for summary in chosen):
        chosen = _ask_their_machines(chosen)
    if as_json:
        answer_json({"runs": [summary_json(summary) for summary in chosen], "more": more})
    elif not known:
        answer(f"There are no runs in {folder.folder}.\n")
    elif not chosen:
        answer("No runs match.\n")
    else:
        answer(runs_table(chosen))
        if more:
            answer("There are more; --limit 0 shows all.\n")
    return 0


def _as_they_stand(
    found: Iterator[RunSummary], known: Sequence[Run], wanted: RunFilter
) -> Iterator[RunSummary]:
    """Whether a run on another machine is wanted, that machine knows."""
    told: dict[str, RunSummary] | None = None
    for summary in found:
        if summary.status == "unknown" and told is None:
            stubs = [run for run in known if os.path.lexists(run.root / ELSEWHERE)]
            away = [one for one in map(summary_of, stubs) if one.status == "unknown"]
            told = {one.run.id: one for one in _ask_their_machines(away)}
        standing = (told or {}).get(summary.run.id, summary)
        if wanted.wants(standing):
            yield standing


def _wanted(filters: dict[str, Any]) -> RunFilter:
    since, until = filters["since"], filters["until"]
    now = time.time()
    return RunFilter(
        statuses=frozenset(filters["statuses"]),
        dialects=frozenset(filters["dialects"]),
        definition=filters["definition"],
        since="" if since is None else id_beginning(moment_of("--since", since, now)),
        until="" if until is None else id_beginning(moment_of("--until", until, now)),
    )
