"""Decisions about gates from outside a run: each is recorded once, for one visit of a gate.

The run is not carried on. With the decision its new standing is recorded in the same write: it
waits to be resumed, or for another decision, or it has ended with this one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from orchestrate.errors import ConfigError, OrchestrateError, UsageError
from orchestrate.exits import Ending, waits_for_person, waits_to_be_resumed
from orchestrate.record import record, replace
from orchestrate.state.apply import TIMEOUT, apply
from orchestrate.state.ballots import cast
from orchestrate.state.clock import now_by
from orchestrate.state.events import GateDecided, RunEnded, run_ended
from orchestrate.state.plan_file import index_of
from orchestrate.state.store import Store, load
from orchestrate.state.times import local_time, seconds_of
from orchestrate.state.users import user_name
from orchestrate.view.run_view import RunView, run_view

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.result import Approval
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Decision = Literal["approved", "denied"]
# A process that asks takes a decision over within a fraction of a second.
_TAKEN_OVER_IN_S = 10.0
_POLL_S = 0.05


@record
class Decided:
    """What became of a gate, and how its run stands now; `ending` is None while it runs."""

    stage: str
    decision: str
    by: str
    message: str
    status: str
    ending: Ending | None

    @property
    def asks_more(self) -> bool:
        """Does the run wait for a decision about another gate?"""
        return self.ending is not None and self.ending.kind == "gate"


def decide(
    run: Run,
    workspace: Workspace,
    stage: str | None,
    decision: Decision,
    message: str,
    note: Callable[[str], None] = lambda _: None,
) -> Decided:
    """Record a decision about the gate that waits; a `UsageError` says why none can be."""
    from orchestrate.app.secrets import secrets_of_run

    store = _open(run, "approve" if decision == "approved" else "deny", note)
    try:
        expired = _settle(store)
        gate = _choose(run, store.state, store.state.pending, stage, expired)
        said = secrets_of_run(run, workspace).text(message)
        now = now_by(store.state.clock)
        event = GateDecided(*gate.visited, now, decision, user_name(os.environ), said)
        counted, is_ours = cast(run.root, event)
        _record(store, counted)
        if not is_ours and replace(counted, at=event.at) != event:
            raise UsageError(_why_none(run, store.state, gate.stage))
        return _decided(store.state, _gate_of(store.state, event))
    finally:
        store.close()


def decide_live(
    run: Run, workspace: Workspace, stage: str | None, decision: Decision, message: str
) -> Decided | None:
    """Decide for the process that works on the run, which takes it over as soon as it asks.

    None if that process is gone before it has: then the decision is recorded from here.
    """
    from orchestrate.app.claim import orchestrator_of
    from orchestrate.app.secrets import secrets_of_run

    view = run_view(run)
    gate = _choose_live(view, stage)
    said = secrets_of_run(run, workspace).text(message)
    now = now_by(view.state.clock)
    event = GateDecided(*gate.visited, now, decision, user_name(os.environ), said)
    counted, is_ours = cast(run.root, event)
    if not is_ours:
        raise UsageError(
            f"stage '{gate.stage}' of run {run.id} was {counted.decision} already, by {counted.by}"
        )
    give_up = time.monotonic() + _TAKEN_OVER_IN_S
    while time.monotonic() < give_up:
        view = run_view(run)
        if not any(_is_of(one, event) for one in view.state.pending):
            break
        if orchestrator_of(run) is None:
            return None
        time.sleep(_POLL_S)
    status = view.state.status
    ending = None if status == "running" else view.state.ending
    return Decided(gate.stage, decision, event.by, said, status, ending)


def _choose_live(view: RunView, stage: str | None) -> Approval:
    run, gates = view.run, view.state.pending
    waiting = list(dict.fromkeys(gate.stage for gate in gates))
    for gate in gates:
        if gate.stage == stage or (stage is None and len(waiting) == 1):
            return gate
    decided = [gate for gate in view.state.approvals if gate.status != "pending"]
    for gate in reversed(decided):
        if not gates and stage in (None, gate.stage):
            raise UsageError(
                f"stage '{gate.stage}' of run {run.id} was {gate.status} already, by "
                f"{gate.decided_by} at {gate.decided_at}",
                "the run is at work and waits for no other approval now",
            )
    if not gates:
        raise ConfigError(
            f"run {run.id} is at work and waits for no approval: it is {view.state.status}",
            "decide when it has come to a gate",
        )
    raise UsageError(
        f"run {run.id} waits for {len(waiting)} approvals: say which stage is meant",
        _pending(waiting),
    )


def settle_overdue(run: Run) -> list[Decided]:
    """Record what the clock has decided; whoever looks next does it (rulings §8).

    Nothing is settled for a run that somebody works on: that one does it.
    """
    from orchestrate.app.claim import AtWorkError

    try:
        store = _open(run, "approvals", lambda _: None)
    except AtWorkError:
        return []
    try:
        return _settle(store)
    finally:
        store.close()


def is_overdue(view: RunView) -> bool:
    """Has the clock decided about a gate of a run that waits?"""

    if view.is_live or view.status not in ("paused", "interrupted"):
        return False
    now = now_by(view.state.clock)
    return any(
        gate.expires_at is not None and now >= seconds_of(gate.expires_at)
        for gate in view.state.pending
    )


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


def _open(run: Run, verb: str, note: Callable[[str], None]) -> Store:
    from orchestrate.app.claim import claim_briefly
    from orchestrate.app.open_store import open_stored

    index = index_of(run)
    lock = claim_briefly(run, verb)
    try:
        return open_stored(run, lock, index, note)
    except BaseException:
        lock.release()
        raise


def _settle(store: Store) -> list[Decided]:
    from orchestrate.engine.ops.gate import overdue

    if store.state.status not in ("paused", "running"):
        return []
    settled = []
    for event in overdue(store.state, now_by(store.state.clock)):
        _record(store, cast(store.run.root, event)[0])
        settled.append(_decided(store.state, _gate_of(store.state, event)))
        if store.state.status not in ("paused", "running"):
            break
    return settled


def _is_of(gate: Approval, event: GateDecided) -> bool:
    return gate.visited == (event.frame, event.node, event.visit)


def _gate_of(state: RunState, event: GateDecided) -> Approval:
    return next(gate for gate in reversed(state.approvals) if _is_of(gate, event))


def _record(store: Store, event: GateDecided) -> None:
    """The decision and what it leads to, in one write."""
    store.record(event, _standing_after(store, event))
    store.checkpoint(durable=True)


def _standing_after(store: Store, event: GateDecided) -> RunEnded:
    """How the run stands after a decision: tried on a second copy of the state."""

    # That it is parked is no end: what the decision leads to counts.
    tried = replace(load(store.run, store.index), ending=None)
    apply(store.index, tried, event)
    ending = tried.ending
    if ending is None:
        waiting = [gate.stage for gate in tried.pending]
        if waiting:
            ending = waits_for_person((), waiting)
        else:
            stage = _gate_of(tried, event).stage
            ending = waits_to_be_resumed(stage, by_timeout=event.by == TIMEOUT)
    return run_ended(event.at, ending)


def _decided(state: RunState, gate: Approval) -> Decided:
    return Decided(
        gate.stage, gate.status, gate.decided_by, gate.message,
        state.status, state.ending,
    )  # fmt: skip


def _choose(
    run: Run,
    state: RunState,
    gates: list[Approval],
    stage: str | None,
    expired: list[Decided],
) -> Approval:
    """The gate that is meant."""
    waiting = list(dict.fromkeys(gate.stage for gate in gates))
    if state.status not in ("paused", "running"):
        gates = []
    for gate in gates:
        if gate.stage == stage or (stage is None and len(waiting) == 1):
            return gate
    for late in expired:
        if stage in (None, late.stage):
            raise UsageError(
                f"the gate of stage '{late.stage}' of run {run.id} has expired and is "
                f"{late.decision}",
                state.reason or "",
            )
    if gates and stage is None:
        raise UsageError(
            f"run {run.id} waits for {len(waiting)} approvals: say which stage is meant",
            _pending(waiting),
        )
    raise UsageError(_why_none(run, state, stage), _pending(waiting if gates else []))


def _pending(stages: list[str]) -> str:
    shown = ", ".join(f"'{stage}'" for stage in stages)
    return f"pending: {shown}" if shown else "nothing is pending"


def _why_none(run: Run, state: RunState, stage: str | None) -> str:
    decided = [gate for gate in state.approvals if gate.status != "pending"]
    for gate in reversed(decided):
        if stage in (None, gate.stage):
            return (
                f"stage '{gate.stage}' of run {run.id} was {gate.status} already, by "
                f"{gate.decided_by} at {local_time(gate.decided_at or gate.requested_at)}"
            )
    if stage is None:
        return f"run {run.id} waits for no approval: it is {state.status}"
    from orchestrate.diagnostics import closest

    near = closest(stage, (gate.stage for gate in state.approvals))
    also = f" (did you mean '{near}'?)" if near else ""
    return f"run {run.id} does not wait for an approval of '{stage}'{also}"
