"""Runs as a list: a table for people, a document for programs."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.plan.visible import clip, visible, width_of
from orchestrate.state.times import duration
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
