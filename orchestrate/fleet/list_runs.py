"""`runs --fleet`: all runs of the server's namespace and of the `ssh:` machines."""

from __future__ import annotations

import os
import time
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path

from orchestrate.errors import OrchestrateError
from orchestrate.fleet.extra import with_extra
from orchestrate.fleet.forward import runs_on
from orchestrate.fleet.settings import FleetSettings, load_fleet
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.runs_table import age_text
from orchestrate.state.runs import Run, second_of
from orchestrate.state.times import timestamp
from orchestrate.view.run_list import RunFilter

_list_server = with_extra("server_list:list_runs_of")


@record
class _Row:
    run: str
    status: str
    pool: str
    machine: str
    started: float


def list_fleet(wanted: RunFilter, limit: int, *, as_json: bool) -> int:
    """The newest runs first; a machine that does not answer is named."""
    rows = [row for row in _rows(load_fleet()) if _is_wanted(row, wanted)]
    rows.sort(key=lambda row: (row.started, row.run), reverse=True)
    chosen = rows[:limit] if limit else rows
    if as_json:
        shown = [
            {"run_id": row.run, "status": row.status, "pool": row.pool,
             "machine": row.machine or None, "started_at": timestamp(row.started)}
            for row in chosen
        ]  # fmt: skip
        answer_json({"runs": shown, "more": len(rows) > len(chosen)})
    elif not chosen:
        answer("No runs match.\n")
    else:
        now = time.time()
        for row in chosen:
            where = f"{row.pool} ({row.machine})" if row.machine else row.pool
            age = age_text(max(0.0, now - row.started))
            answer(f"{row.run}  {row.status:11}  {age:>8}  {visible(where)}\n")
        if len(rows) > len(chosen):
            answer("There are more; --limit 0 shows all.\n")
    return 0


def _is_wanted(row: _Row, wanted: RunFilter) -> bool:
    is_status = not wanted.statuses or row.status in wanted.statuses
    return is_status and wanted.may_want(Run(row.run, Path()))


def _rows(settings: FleetSettings) -> Iterator[_Row]:
    if settings.uses_server(os.environ):
        for run in _list_server(settings, None):
            yield _Row(run.id, run.status, run.pool, run.machine, run.started_at.timestamp())
    for pool in settings.pools.values():
        for host in pool.hosts:
            try:
                found = runs_on(host, pool.root)
            except OrchestrateError as error:
                note(f"orchestrate: {visible(error.message)}\n")
                continue
            for run, status in found.items():
                started = timegm(time.strptime(second_of(run), "%Y%m%dT%H%M%SZ"))
                yield _Row(run, status, pool.name, host, started)
