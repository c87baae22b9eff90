"""What a decision about a gate led to, as text and as a document for programs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from orchestrate.errors import StateError
from orchestrate.plan.visible import visible
from orchestrate.state.address import gate_words
from orchestrate.state.runs import Run
from orchestrate.view.advice import view_flags
from orchestrate.view.outcomes import Decided
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view


def decision_json(run: Run, decided: Decided, place: Place) -> dict[str, Any]:
    ending = decided.ending
    goes_on = decided.status == "paused" and not decided.asks_more and not _is_elsewheres(run)
    return {
        "run_id": run.id,
        "stage": decided.stage,
        "decision": decided.decision,
        "by": decided.by,
        "message": decided.message,
        "status": decided.status,
        "reason": "" if ending is None else ending.reason,
        "next": _resume(run, place) if goes_on else None,
    }


def decision_text(run: Run, decided: Decided, place: Place, *, goes_on: bool = False) -> str:
    gate = visible(gate_words(decided.stage, decided.node))
    text = f"{gate} of run {run.id} is {decided.decision}\n"
    if goes_on:
        return text
    ending = decided.ending
    if ending is None:
        return text + "the process that works on it goes on\n"
    if ending.status != "paused":
        word = "completed" if ending.status == "completed" else "ended"
        why = f": {visible(ending.reason)}" if ending.tells else ""
        return text + f"the run has {word}{why}\n"
    if decided.asks_more:
        return text + f"it {visible(ending.reason)}\n"
    if _is_elsewheres(run):
        return text + "the run goes on by itself\n"
    return text + f"go on with it: {_resume(run, place)}\n"


def _is_elsewheres(run: Run) -> bool:
    """Was it sent here from another machine, which lets it go on after a decision?"""
    with suppress(StateError):
        return bool(run_view(run).state.settings.get("seat"))
    return False


def _resume(run: Run, place: Place) -> str:
    try:
        flags = view_flags(run_view(run))
    except StateError:
        flags = ("--repair",)
    return place.command("resume", run.id, *flags)
