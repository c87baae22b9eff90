"""The last words about a run: how it ended, what it cost, and what to do now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.exits import BUDGETS, PARKED, Ending
from orchestrate.plan.visible import visible
from orchestrate.show.facts import output_lines
from orchestrate.show.spending import cost_words, reused_words, token_words
from orchestrate.state.cancelling import is_cancelling
from orchestrate.state.denials import denial_words
from orchestrate.state.edits import reused_document
from orchestrate.state.gates import gate_names
from orchestrate.state.model import RunState
from orchestrate.view.advice import (
    Reached,
    as_started_flag,
    behind_flags,
    failed_in,
    resume_flags,
    stopped_at,
    values_wanted,
    what_to_look_at,
)
from orchestrate.view.giving_up import giving_up_words
from orchestrate.view.rehearsed import banner
from orchestrate.view.result_document import outputs_document

if TYPE_CHECKING:
    from orchestrate.view.place import Place
    from orchestrate.view.watched_run import WatchedRun


def last_words(store: WatchedRun, ending: Ending, place: Place) -> str:
    """How the run ended, and what to do now."""
    run_id = store.run.id
    state = store.state
    lines: list[str] = []
    match ending.status:
        case "completed":
            because = f": {visible(ending.reason)}" if ending.tells else ""
            lines.append(f"run {run_id} completed{because}{_given_up(store)}")
        case "failed":
            lines.append(f"run {run_id} failed: {visible(ending.reason)}{_given_up(store)}")
            lines += _after_failure(store, ending, place)
        case "paused" if ending.kind in BUDGETS:
            lines.append(f"run {run_id} is parked: {visible(ending.reason)}")
            lines += _after_failure(store, ending, place)
        case "paused" if ending.code == PARKED:
            lines += _waiting_for_a_person(store, ending, place)
        case "paused" if is_cancelling(store.run):
            lines.append(f"run {run_id} is being cancelled for good")
        case _:
            lines.append(f"run {run_id} stopped: {visible(ending.reason)}")
            more = as_started_flag(store.run, store.state)
            lines.append(f"  go on:  {visible(place.command('resume', run_id, *more))}")
    lines += [f"  output: {line}" for line in output_lines(_outputs(store))]
    for reused in reused_document(state).values():
        lines.append(f"  reused: {reused_words(**reused)}")
    if state.costs.turns:
        lines.append("  " + cost_line(state))
    if told := banner(state.settings):
        lines.append("  " + told)
    if state.denials:
        # Last of all: a run whose agents were refused their tools may have done nothing.
        words = visible(denial_words(state.denials))
        lines.append(f"  denied: {words}; see {visible(place.command('status', run_id))}")
    return "\n".join(lines) + "\n"


def _outputs(store: WatchedRun) -> dict[str, Any]:
    found: dict[str, Any] = outputs_document(store.run, store.state).get("outputs", {})
    return found


def _given_up(store: WatchedRun) -> str:
    words = giving_up_words(store.state, store.index)
    return f" ({visible(words)})" if words else ""


def _waiting_for_a_person(store: WatchedRun, ending: Ending, place: Place) -> list[str]:
    """For a decision at a gate, or because attempts of a step were lost."""
    run_id, state = store.run.id, store.state
    if not stopped_at(state):
        lines = [f"run {run_id} {visible(ending.reason)}"]
    else:
        lines = [f"run {run_id} waits for a person: {visible(ending.reason)}"]
        lines += _after_failure(store, ending, place)
        if not state.pending:
            return lines
    # One that waits needs no name.
    names = [(name,) for name in gate_names(state.pending)] if len(state.pending) > 1 else [()]
    for gate, name in zip(state.pending, names, strict=True):
        lines += [f"  | {visible(line)}" for line in gate.prompt.splitlines()]
        lines.append(f"  approve: {visible(place.command('approve', run_id, *name))}")
        lines.append(f"  deny:    {visible(place.command('deny', run_id, *name))}")
    return lines


def _after_failure(store: WatchedRun, ending: Ending, place: Place) -> list[str]:
    """What to look at and how to go on; nothing that would only say that it cannot."""
    run_id, state = store.run.id, store.state
    is_denied = any(gate.status == "denied" for gate in state.approvals)
    stopped = stopped_at(state)
    look = what_to_look_at(run_id, stopped, state, is_denied=is_denied)
    lines = []
    if ending.kind == "denied":
        anew = place.command("resume", run_id, "--force-restart")
        lines.append(f"  start over: {visible(anew)}")
    if look is not None and ending.kind not in BUDGETS:
        lines.append(f"  look:   {visible(place.command('logs', *look))}")
    flags = resume_flags(ending, Reached.of(state))
    is_at_end = state.root.here is None and state.restart is None
    if not is_denied and not is_at_end and flags is not None:
        flags += (*values_wanted(failed_in(state)), *behind_flags(state))
        flags += as_started_flag(store.run, state)
        lines.append(f"  go on:  {visible(place.command('resume', run_id, *flags))}")
    if ending.kind == "limit":
        edited = place.command("resume", run_id, "--edited")
        lines.append(f"  go on:  raise that limit in the file, then {visible(edited)}")
    return lines


def cost_line(state: RunState) -> str:
    tokens = token_words(state.costs)
    return f"cost: {cost_words(state.costs)}" + (f"; tokens: {tokens}" if tokens else "")
