"""`orchestrate clean`: removes old runs, never one that is in use or can still be resumed."""

from __future__ import annotations

import sys
import time

import click

from orchestrate.app.ending import clean as cleaning
from orchestrate.app.ending.clean import Chosen
from orchestrate.app.ending.keep_age import VARIABLE, keep_age
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, place_options
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.cli.terminal import has_terminal
from orchestrate.exits import DONE, ENVIRONMENT
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.runs_table import tidied_json, tidied_text
from orchestrate.state.runs import list_runs
from orchestrate.view.outcomes import Tidied
from orchestrate.view.place import Place
from orchestrate.view.run_summary import STATUSES

_release = later("fleet.away:release")


@click.command(short_help="Remove old runs.")
@click.option("--older-than", metavar="AGE",
              help="Remove runs without a change for this long: a number and s, m, h, "
              f"d or w (default: {VARIABLE}, in days).")  # fmt: skip
@click.option("--keep", type=AT_LEAST_0, metavar="N",
              help="Keep the newest N runs, however old; alone: remove all others.")  # fmt: skip
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True,
              help="Only runs with this status; repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
@place_options
@json_option
def clean(
    older_than: str | None,
    keep: int | None,
    statuses: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    place: Place,
    as_json: bool,
) -> int:
    """Remove old runs, e.g. `--older-than 7d`.

    A run that is at work, or whose programs still run, always stays. So does one whose worktree has
    files or commits that no other branch has; other worktrees go with their runs. An interrupted or
    paused run is removed only with `--status interrupted` or `--status paused`, one on another
    machine with `--status unknown`, and then its place there, too. At a terminal you are shown what
    would be removed, and asked.
    """
    before = time.time() - keep_age(older_than, keep, place.working_dir)
    folder = runs_of(place)
    newest = frozenset(run.id for run in list_runs(folder)[: keep or 0])
    chosen = Chosen(newest, statuses)
    asks = not (dry_run or yes or as_json) and has_terminal()
    if asks and not _is_wanted(cleaning.rehearse(folder, before, chosen)):
        note("nothing is removed\n")
        return 0
    if dry_run:
        tidied = cleaning.rehearse(folder, before, chosen)
    else:
        tidied = cleaning.clean(folder, before, chosen, _release)
    for run_id, reason in tidied.failed:
        note(f"orchestrate: run {run_id} cannot be removed: {reason}\n")
    if as_json:
        answer_json(tidied_json(tidied, dry_run))
    else:
        answer(tidied_text(tidied, dry_run))
    return ENVIRONMENT if tidied.failed else DONE


def _is_wanted(planned: Tidied) -> bool:
    """Show what would be removed, and ask; nothing to remove needs no question."""
    if not planned.removed:
        return True
    shown = tidied_text(planned, dry_run=True)
    note(shown + "Remove? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
