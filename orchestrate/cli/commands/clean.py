"""`orchestrate clean`: removes old runs, never one that is in use or can still be resumed."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from orchestrate.app import clean as cleaning
from orchestrate.app.clean import UNFINISHED, Chosen, Tidied
from orchestrate.app.config import load_config
from orchestrate.app.runs_folder import runs_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.later import later
from orchestrate.cli.moments import UNITS, age_in_seconds
from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.cli.terminal import has_terminal
from orchestrate.errors import ConfigError, UsageError
from orchestrate.exits import DONE, ENVIRONMENT
from orchestrate.plan.visible import plural, show_size
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.runs_table import runs_table
from orchestrate.state.runs import list_runs
from orchestrate.view.place import Place
from orchestrate.view.run_summary import STATUSES

_VARIABLE = "ORCHESTRATE_KEEP_RUNS"
_release = later("away:release")
_MOST_NAMES = 20


@click.command(short_help="Remove old runs.")
@click.option("--older-than", metavar="AGE",
              help="Remove runs without a change for this long: a number and s, m, h, "
              f"d or w (default: {_VARIABLE}, in days).")  # fmt: skip
@click.option("--keep", type=AT_LEAST_0, metavar="N",
              help="Keep the newest N runs, however old; alone: remove all others.")  # fmt: skip
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True,
              help="Only runs with this status; repeatable.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
@state_dir_option
@working_dir_option
@json_option
def clean(
    older_than: str | None,
    keep: int | None,
    statuses: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Remove old runs, e.g. `--older-than 7d`.

    A run that is at work, or whose programs still run, always stays. So does one whose worktree has
    files or commits that no other branch has; other worktrees go with their runs. An interrupted or
    paused run is removed only with `--status interrupted` or `--status paused`, one on another
    machine with `--status unknown`, and then its place there, too. At a terminal you are shown what
    would be removed, and asked.
    """
    before = time.time() - _age_of(older_than, keep, working_dir)
    folder = runs_of(Place(working_dir, state_dir))
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
        answer_json(_as_json(tidied, dry_run))
    else:
        answer(_text(tidied, dry_run))
    return ENVIRONMENT if tidied.failed else DONE


def _is_wanted(planned: Tidied) -> bool:
    """Show what would be removed, and ask; nothing to remove needs no question."""
    if not planned.removed:
        return True
    shown = _text(planned, dry_run=True)
    note(shown + "Remove? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _age_of(older_than: str | None, keep: int | None, working_dir: str | None) -> float:
    """Seconds, from the flag, or from the days that the environment or the configuration say.

    With `--keep`, no age is needed.
    """
    if older_than is not None:
        return age_in_seconds("--older-than", older_than)
    days = load_config(workspace_of(working_dir)).get("keep_runs")
    if days is None and keep is not None:
        return 0.0
    if days is None:
        raise UsageError(
            "how old must a run be to be removed?",
            f"say e.g. --older-than 7d or --keep 20, or set {_VARIABLE} to a number of days",
        )
    if days < 0:
        raise ConfigError(f"{_VARIABLE} is {days}: an age cannot be negative")
    return float(days * UNITS["d"])


def _as_json(tidied: Tidied, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "removed": tidied.removed,
        "in_use": tidied.in_use,
        "unmerged": tidied.unmerged,
        "left": [{"run_id": run_id, "status": status} for run_id, status in tidied.left.items()],
        "failed": [{"run_id": run_id, "reason": reason} for run_id, reason in tidied.failed],
        "freed_bytes": tidied.freed,
    }


def _text(tidied: Tidied, dry_run: bool) -> str:
    lines = [runs_table(tidied.shown)] if dry_run else []
    did, freed = ("would remove", "would free") if dry_run else ("removed", "freed")
    size = f", {freed} {show_size(tidied.freed)}" if tidied.removed else ""
    lines.append(f"{did} {plural(len(tidied.removed), 'run')}{size}\n")
    if tidied.in_use:
        shown = ", ".join(tidied.in_use[:_MOST_NAMES])
        more = ", …" if len(tidied.in_use) > _MOST_NAMES else ""
        lines.append(f"in use and kept: {shown}{more}\n")
    if tidied.unmerged:
        names = ", ".join(tidied.unmerged[:_MOST_NAMES])
        lines.append(f"worktree not merged, and kept: {names}; see orchestrate status RUN\n")
    if tidied.left:
        found = [status for status in UNFINISHED if status in tidied.left.values()]
        flags = " ".join(f"--status {status}" for status in found)
        count = plural(len(tidied.left), "run")
        lines.append(f"can still be resumed and kept: {count}; to choose them, add {flags}\n")
    return "".join(lines)
