"""Runs as a list: a table for people, a document for programs."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.plan.visible import clip, plural, show_size, visible, width_of
from orchestrate.state.times import duration
from orchestrate.view.outcomes import UNFINISHED, Tidied
from orchestrate.view.run_list import elapsed_s, seconds_or_none
from orchestrate.view.run_summary import RunSummary
from orchestrate.view.source_files import shown_definition


def summary_json(summary: RunSummary) -> dict[str, Any]:
    fields = summary.fields()
    names = ("reason", "dialect", "workflow_file", "started_at", "updated_at", "completed_at")
    shown = {"run_id": summary.run.id, "run_root": str(summary.run.root), "status": summary.status}
    seconds = elapsed_s(summary, time.time())
    took = {"elapsed_ms": None if seconds is None else round(seconds * 1000)}
    return shown | summary.marks | {name: fields.get(name) for name in names} | took


def runs_table(summaries: list[RunSummary]) -> str:
    """A line for each: its id, how it stands, its age, how long it took, and its definition."""
    now = time.time()
    lines = []
    standings = [_standing(summary) for summary in summaries]
    width = max((width_of(text) for text in standings), default=0)
    for summary, standing in zip(summaries, standings, strict=True):
        fields = summary.fields()
        definition = shown_definition(str(fields.get("workflow_file", "?")))
        started = seconds_or_none(fields.get("started_at"))
        took = elapsed_s(summary, now)
        ago = "" if started is None else age_text(max(0.0, now - started))
        shown = "" if took is None else duration(took * 1000)
        pad = " " * (max(width, 11) - width_of(standing))
        lines.append(f"{summary.run.id}  {standing}{pad}  {ago:>8}  {shown:>8}  {definition}\n")
    return "".join(lines)


def _standing(summary: RunSummary) -> str:
    """Its status, and why that does not speak for the whole work."""
    marks = summary.marks
    words = ["rehearsal"] if marks["rehearsal"] else []
    words += [f"step {clip(visible(marks['run_step']), 20)}"] if marks["run_step"] else []
    return f"{summary.shown_status} ({', '.join(words)})" if words else summary.shown_status


def age_text(seconds: float) -> str:
    """How long ago, in one unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds)}s ago"


_MOST_NAMES = 20


def tidied_json(tidied: Tidied, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "removed": tidied.removed,
        "in_use": tidied.in_use,
        "unmerged": tidied.unmerged,
        "left": [{"run_id": run_id, "status": status} for run_id, status in tidied.left.items()],
        "failed": [{"run_id": run_id, "reason": reason} for run_id, reason in tidied.failed],
        "freed_bytes": tidied.freed,
    }


def tidied_text(tidied: Tidied, dry_run: bool) -> str:
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
