"""Records what the clock has decided about the gates of a run, as soon as a command looks.

The run is not carried on. With a decision its new standing is recorded in the same write: it waits
to be resumed, or for another decision, or it has ended with this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.ending.claim import AtWorkError, claim_briefly
from orchestrate.app.ending.end_calls import made_calls, settle_calls
from orchestrate.app.working.open_store import open_stored
from orchestrate.errors import OrchestrateError
from orchestrate.exits import waits_for_person, waits_to_be_resumed
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.address import gate_words
from orchestrate.state.apply import TIMEOUT, apply
from orchestrate.state.ballots import cast
from orchestrate.state.clock import now_by
from orchestrate.state.events import GateDecided, RunEnded, run_ended
from orchestrate.state.gates import gate_names, overdue
from orchestrate.state.plan_file import index_of
from orchestrate.state.runs import Run, Runs, list_runs
from orchestrate.state.store import Store, load
from orchestrate.state.times import seconds_of
from orchestrate.view.outcomes import Decided
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import RunView, run_view

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.result import Approval


def settled_view(run: Run) -> RunView:
    """The run's view after what the clock has decided was recorded."""
    view = run_view(run)
    if not is_overdue(view):
        return view
    try:
        settle_overdue(run)
    except OrchestrateError as error:
        why = f"a gate has expired, but that cannot be recorded: {error.message}"
        return replace(view, note="; ".join(filter(None, (view.note, why))))
    return run_view(run)


def parked_runs(runs: Runs, note: Callable[[str], None]) -> list[RunView]:
    """The runs that may wait at a gate; those that cannot be read are told, and left out."""
    found = []
    for run in list_runs(runs):
        if summary_of(run).status not in ("running", "interrupted", "paused"):
            continue
        try:
            view = settled_view(run)
        except OrchestrateError as error:
            note(f"orchestrate: run {run.id} is skipped: {visible(error.message)}\n")
            continue
        if view.status in ("running", "interrupted", "paused"):
            found.append(view)
    return found


def is_overdue(view: RunView) -> bool:
    """Has the clock decided about a gate of a run that waits?"""
    if view.is_live or view.status not in ("paused", "interrupted"):
        return False
    now = now_by(view.state.clock)
    return any(
        gate.expires_at is not None and now >= seconds_of(gate.expires_at)
        for gate in view.state.pending
    )


def settle_overdue(run: Run) -> list[Decided]:
    """Record what the clock has decided; the next reader does it (rulings §8).

    Nothing is settled for a run that a process works on: that process does it.
    """
    try:
        store = open_briefly(run, "approvals", lambda _: None)
    except AtWorkError:
        return []
    try:
        return settle(store)
    finally:
        store.close()


def open_briefly(run: Run, verb: str, note: Callable[[str], None]) -> Store:
    index = index_of(run)
    lock = claim_briefly(run, verb)
    try:
        return open_stored(run, lock, index, note)
    except BaseException:
        lock.release()
        raise


def settle(store: Store) -> list[Decided]:
    if store.state.status not in ("paused", "running"):
        return []
    settled = []
    for event in overdue(store.state, now_by(store.state.clock)):
        record_decision(store, cast(store.run.root, event)[0])
        settled.append(decided_now(store.state, gate_of(store.state, event)))
        if store.state.status not in ("paused", "running"):
            break
    return settled


def is_of(gate: Approval, event: GateDecided) -> bool:
    return gate.visited == (event.frame, event.node, event.visit)


def gate_of(state: RunState, event: GateDecided) -> Approval:
    return next(gate for gate in reversed(state.approvals) if is_of(gate, event))


def record_decision(store: Store, event: GateDecided) -> None:
    """The decision and what it leads to, in one write."""
    standing = _standing_after(store, event)
    made = made_calls(store.run, store.index, store.state)
    store.record(event, standing)
    store.checkpoint(durable=True)
    if standing.ending.kind == "denied":
        settle_calls(store.run, made, store.state.started_at)


def _standing_after(store: Store, event: GateDecided) -> RunEnded:
    """How the run stands after a decision: tried on a second copy of the state."""
    # To be parked is not an end: what the decision leads to counts.
    tried = replace(load(store.run, store.index), ending=None)
    apply(store.index, tried, event)
    ending = tried.ending
    if ending is None:
        waiting = gate_names(tried.pending)
        if waiting:
            ending = waits_for_person((), waiting)
        else:
            gate = gate_words(gate_of(tried, event).stage, event.node)
            ending = waits_to_be_resumed(gate, event.decision, by_timeout=event.by == TIMEOUT)
    return run_ended(event.at, ending)


def decided_now(state: RunState, gate: Approval) -> Decided:
    return Decided(
        gate.stage, gate.status, gate.decided_by, gate.message,
        state.status, state.ending, node=gate.node,
    )  # fmt: skip
