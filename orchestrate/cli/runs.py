"""`orchestrate runs`: the runs of a workspace, newest first, with the truth about each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from orchestrate.cli.looking import STATUSES, Glance, Place, glance_at, runs_of
from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.cli.output import answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchestrate.state.runs import Run


@click.command(short_help="List the runs of the workspace.")
@click.option("--limit", type=click.IntRange(0), default=20, metavar="N",
              help="How many runs to show at most; 0 shows all (default: 20).")  # fmt: skip
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True,
              help="Only runs that stand so; repeatable.")  # fmt: skip
@state_dir_option
@working_dir_option
@json_option
def runs(
    limit: int,
    statuses: tuple[str, ...],
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """List the runs of the workspace, newest first.

    A run whose process is gone without an end is `interrupted`; one whose state cannot be read is
    `damaged`.
    """
    from orchestrate.state.runs import list_runs

    folder = runs_of(Place(working_dir, state_dir))
    known = list_runs(folder)
    chosen, more = _choose(known, set(statuses), limit)
    if as_json:
        answer_json({"runs": [_as_json(glance) for glance in chosen], "more": more})
    elif not known:
        answer(f"There are no runs in {folder.folder}.\n")
    elif not chosen:
        answer("There are no such runs.\n")
    else:
        answer(_table(chosen))
        if more:
            answer("There are more; --limit 0 shows all.\n")
    return 0


def _choose(known: tuple[Run, ...], statuses: set[str], limit: int) -> tuple[list[Glance], bool]:
    """The runs to show, and whether there are more; no more of them are read than needed."""
    chosen: list[Glance] = []
    for glance in _glances(known, statuses):
        if limit and len(chosen) == limit:
            return chosen, True
        chosen.append(glance)
    return chosen, False


def _glances(known: tuple[Run, ...], statuses: set[str]) -> Iterator[Glance]:
    for run in known:
        glance = glance_at(run)
        if not statuses or glance.status in statuses:
            yield glance


def _as_json(glance: Glance) -> dict[str, Any]:
    fields = glance.fields()
    names = ("reason", "dialect", "workflow_file", "started_at", "updated_at", "completed_at")
    shown = {"run_id": glance.run.id, "run_root": str(glance.run.root), "status": glance.status}
    return shown | {name: fields.get(name) for name in names}


def _table(glances: list[Glance]) -> str:
    from orchestrate.plan.visible import visible

    now = time.time()
    lines = []
    for glance in glances:
        fields = glance.fields()
        definition = visible(str(fields.get("workflow_file", "?")))
        age, took = _times(glance.status, fields, now)
        lines.append(f"{glance.run.id}  {glance.status:11}  {age:>8}  {took:>8}  {definition}\n")
    return "".join(lines)


def _times(status: str, fields: dict[str, Any], now: float) -> tuple[str, str]:
    """How long ago the run started, and how long it took, or has taken so far."""
    from datetime import datetime

    from orchestrate.cli.telling import duration

    try:
        started = datetime.fromisoformat(fields["started_at"]).timestamp()
        last = fields.get("completed_at") or fields["updated_at"]
        ended = now if status == "running" else datetime.fromisoformat(last).timestamp()
    except (KeyError, ValueError):
        return "", ""
    return age(max(0.0, now - started)), duration(max(0.0, ended - started) * 1000)


def age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds)}s ago"
