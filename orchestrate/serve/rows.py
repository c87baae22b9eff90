"""A run as a list shows it: one of a few plain states, its last activity, and what it has cost."""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.app.starting.detach import LOG as DETACHED_LOG
from orchestrate.errors import OrchestrateError
from orchestrate.serve.telling import recipe_name
from orchestrate.show.spending import budget_words
from orchestrate.state.elsewhere import is_shadow
from orchestrate.state.locks import is_held
from orchestrate.state.runs import ELSEWHERE, last_change
from orchestrate.state.times import timestamp
from orchestrate.view.budgets import budgets_of
from orchestrate.view.event_words import waits_document
from orchestrate.view.run_summary import FINAL, RunSummary, last_written, summary_of
from orchestrate.view.run_view import RunView, run_view
from orchestrate.view.status_document import elapsed_ms

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
    from orchestrate.view.cursors import Cursor
    from orchestrate.workspace import Workspace

Json = dict[str, Any]

# A run at work whose programs have written nothing for so long is called quiet.
QUIET_S = 60.0
WORKING, FOR_YOU, FOR_QUOTA, QUIET, NOBODY = (
    "working", "waits for you", "waits for quota", "quiet", "nobody works on it",
)  # fmt: skip
STATES = (
    WORKING, FOR_YOU, FOR_QUOTA, QUIET, NOBODY, "completed", "failed", "cancelled", "damaged",
    "unknown",
)  # fmt: skip
_QUOTA = ("rate-limit", "overloaded", "limit")
_MOST_KEPT = 2000
_STOPPED = (*FINAL, "failed", "paused")
_kept: OrderedDict[tuple[str, int, int, int], Json] = OrderedDict()


def row_of(workspace: Workspace, run: Run, now: float) -> Json:
    """Those of runs that have stopped are kept: nothing about them changes but by a resume."""
    key = _key_of(run)
    row = _kept.get(key)
    if row is not None and (row["status"] in FINAL or not is_held(run.lock_file)):
        return row
    row = _make(workspace, run, now)
    if row["status"] in _STOPPED:
        _kept[key] = row
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return row


def _key_of(run: Run) -> tuple[str, int, int, int]:
    try:
        found = run.state.stat()
        return str(run.root), found.st_mtime_ns, found.st_size, run.events.stat().st_size
    except OSError:
        return str(run.root), 0, 0, 0


def _make(workspace: Workspace, run: Run, now: float) -> Json:
    summary = summary_of(run)
    view: RunView | None = None
    with suppress(OrchestrateError):
        view = run_view(run)
    return make_row(workspace, summary, view, now)


def make_row(workspace: Workspace, summary: RunSummary, view: RunView | None, now: float) -> Json:
    fields = summary.fields()
    run = summary.run
    status = view.status if view is not None else summary.status
    active = last_activity(run)
    state = state_of(view, status, active, now)
    is_ours = view is None or view.state.workspace == str(workspace.root)
    return {
        "run_id": run.id,
        "workspace": str(workspace.root),
        "recipe": recipe_name(str(fields.get("workflow_file", "unknown recipe"))),
        "dialect": fields.get("dialect"),
        "status": status,
        **summary.marks,
        "state": state,
        "quiet_ms": round(max(0.0, now - active) * 1000) if state == QUIET else None,
        "reason": (view.ending.reason if view is not None and view.ending else "") or None,
        "waits": None if view is None else waits_of(view),
        "step": ", ".join(at.path for at in view.cursors[:3]) if view is not None else "",
        "started_at": fields.get("started_at"),
        "last_activity": timestamp(active) if active else None,
        "elapsed_ms": None if view is None else elapsed_ms(view, now),
        "cost": cost_of(None if view is None else view.state),
        "budgets": [] if view is None else _budgets(view, now),
        "session_id": None if view is None else view.state.session.id,
        "note": _note(run, view, is_ours),
    }


def _budgets(view: RunView, now: float) -> list[Json]:
    """Each with the words for it."""
    found = budgets_of(view.state, view.index, now if view.is_live else view.state.updated_at)
    return [{**budget.to_json(), "words": budget_words(budget)} for budget in found]


def _note(run: Run, view: RunView | None, is_ours: bool) -> str:
    if view is None and os.path.lexists(run.root / ELSEWHERE):
        return "it is on another machine, and has published nothing yet"
    if is_shadow(run):
        return "it is on another machine: this is what it has published"
    if view is None:
        return "neither its state nor its journal can be read: it can only be looked at"
    if not is_ours:
        return f"it was started in {view.state.workspace}"
    return view.note


def last_activity(run: Run) -> float:
    """When the run, or a program of it, wrote something last.

    What a run in the background says of itself, each minute, that nothing happens is not activity.
    """
    changed = last_change(run)
    return max(last_written(run, (DETACHED_LOG,)), 0.0 if changed == float("inf") else changed)


def state_of(view: RunView | None, status: str, active: float, now: float) -> str:
    """One of the five, or how the run has ended."""
    if view is None or status in ("completed", "failed", "cancelled", "damaged"):
        return status
    if view.waiting_gates or (view.ending is not None and view.ending.kind == "lost"):
        return FOR_YOU
    if not view.is_live:
        return NOBODY
    resting = [at for at in view.cursors if at.phase == "resting" or _is_waiting(at)]
    if resting and len(resting) == len(view.cursors):
        kinds = {str(at.result.context.get("kind", "")) for at in resting}
        is_short = any(map(_is_waiting, resting)) or not kinds.isdisjoint(_QUOTA)
        return FOR_QUOTA if is_short else WORKING
    return QUIET if now - active > QUIET_S else WORKING


def may_be(status: str, state: str) -> bool:
    """Can a run whose summary has this status be in that state?"""
    return status == state if status in FINAL else True


def waits_of(view: RunView) -> Json | None:
    """What the first of its calls that wait is waiting for."""
    if view.status != "running":
        return None
    return next((waits_document(at.waits) for at in view.cursors if _is_waiting(at)), None)


def _is_waiting(at: Cursor) -> bool:
    return bool(at.waits) and at.phase in ("arriving", "resting")


def cost_of(state: RunState | None) -> Json | None:
    """What is known, and how many turns did not say; None where no agent was asked."""
    if state is None or not state.costs.turns:
        return None
    costs = state.costs
    return {"usd": costs.cost_usd, "unknown": costs.unreported, "turns": costs.turns}
