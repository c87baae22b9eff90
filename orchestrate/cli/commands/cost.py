"""`orchestrate cost`: what agents have cost, by day, recipe, step, model or workspace."""

from __future__ import annotations

import os

import click

from orchestrate.app.config.load import load_config
from orchestrate.app.config.money import money_rules
from orchestrate.app.moments import moment_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.show.cost_table import spending_table
from orchestrate.show.output import answer, answer_json, terminal_columns
from orchestrate.state.ledger import ledger_of
from orchestrate.state.times import local_time, timestamp
from orchestrate.view.bill import WAYS, spending_by


@click.command(short_help="Sum up what agents have cost.")
@click.option("--since", default="7d", metavar="WHEN",
              help="Since when: an age, or a date or time (default: 7d).")  # fmt: skip
@click.option("--by", "way", type=click.Choice(tuple(WAYS)), default="day",
              help="What to sum up by (default: day).")  # fmt: skip
@click.option("--all", "everywhere", is_flag=True, help="All workspaces, not this one alone.")
@working_dir_option
@json_option
def cost(since: str, way: str, everywhere: bool, working_dir: str | None, as_json: bool) -> int:
    """Sum up what agents have cost you: what was reported, what is unknown, what is reserved.

    A call that did not report its cost is unknown, never free; in brackets stands what budgets
    count for it. Reserved is what was set aside for calls that have not ended. A day is one of your
    clock.
    """
    start = moment_of("--since", since)
    here = workspace_of(working_dir)
    workspace = None if everywhere else str(here.root)
    entries = [
        entry
        for entry in ledger_of(os.environ).since(start)
        if workspace in (None, entry.workspace)
    ]
    rows, total = spending_by(way, entries, money_rules(load_config(here)).counted_entry)
    if as_json:
        answer_json(
            {"workspace": workspace, "by": way, "rows": [row.to_json() for row in rows],
             "total": total.to_json()}
        )  # fmt: skip
    elif not rows:
        where = "" if everywhere else " in this workspace (--all: in all)"
        answer(f"No agent was asked since {local_time(timestamp(start))}{where}.\n")
    else:
        answer(spending_table(rows, total, terminal_columns()))
    return 0
