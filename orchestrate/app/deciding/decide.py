"""Decisions about gates from outside a run: each is recorded once, for one visit of a gate."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from orchestrate.app.deciding.record_unfolded import append_unfolded
from orchestrate.app.deciding.settle import (
    decided_now,
    gate_of,
    is_of,
    open_briefly,
    record_decision,
    settle,
)
from orchestrate.app.ending.claim import AtWorkError, claim_briefly, orchestrator_of
from orchestrate.app.reading.open_run import refuse_linked
from orchestrate.app.secrets import secrets_of_run
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError, StateError, UsageError
from orchestrate.exits import Ending, end, waits_for_person, waits_to_be_resumed
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.address import gate_words
from orchestrate.state.backups import newest_valid
from orchestrate.state.ballots import cast
from orchestrate.state.clock import now_by
from orchestrate.state.decode import check_state, decode
from orchestrate.state.durable import read_file
from orchestrate.state.events import GateDecided, run_ended
from orchestrate.state.gates import gate_names, path_of_gate
from orchestrate.state.journal import JournalCorruptError
from orchestrate.state.times import local_time, seconds_of
from orchestrate.state.users import user_name
from orchestrate.view.outcomes import Decided
from orchestrate.view.run_view import RunView, run_view

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.result import Approval
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Decision = Literal["approved", "denied"]
# The gate that is meant: by its stage, as one visit of it, or the only one that waits.
Which = str | tuple[str, str, int] | None
# A process that asks takes a decision over within a fraction of a second.
_TAKEN_OVER_IN_S = 10.0
_POLL_S = 0.05


def decide(
    run: Run,
    workspace: Workspace,
    which: Which,
    decision: Decision,
    message: str,
    note: Callable[[str], None] = lambda _: None,
) -> Decided:
    """Decide about the gate that waits, whether or not a process works on the run."""
    while True:
        try:
            return _decide(run, workspace, which, decision, message, note)
        except AtWorkError:
            # That process takes the decision over, or is about to come to the gate.
            decided = _decide_live(run, workspace, which, decision, message)
        if decided is not None:
            return decided


def _decide(
    run: Run,
    workspace: Workspace,
    which: Which,
    decision: Decision,
    message: str,
    note: Callable[[str], None],
) -> Decided:
    """Record a decision about the gate that waits; a `UsageError` says why none can be."""
    try:
        store = open_briefly(run, _verb(decision), note)
    except StateError as error:
        return _decide_unfolded(run, workspace, which, decision, message, note, error)
    try:
        expired = settle(store)
        gate = _choose(run, store.state, which, expired)
        said = secrets_of_run(run, workspace).text(message)
        now = now_by(store.state.clock)
        event = GateDecided(*gate.visited, now, decision, user_name(os.environ), said)
        counted, is_ours = cast(run.root, event)
        record_decision(store, counted)
        if not is_ours and replace(counted, at=event.at) != event:
            raise UsageError(_why_none(run, store.state, gate.stage))
        return replace(decided_now(store.state, gate_of(store.state, event)), is_first=is_ours)
    finally:
        store.close()


def _verb(decision: Decision) -> str:
    return "approve" if decision == "approved" else "deny"


def _decide_unfolded(
    run: Run,
    workspace: Workspace,
    which: Which,
    decision: Decision,
    message: str,
    note: Callable[[str], None],
    why: StateError,
) -> Decided:
    """Decide about a run whose plan or journal cannot be read, by its state file alone.

    What is left of the journal stays for `resume --repair`, and the decision counts after that.
    """
    with claim_briefly(run, _verb(decision)):
        try:
            path, document = newest_valid(run, lambda content: check_state(content, run.id))
            state = decode(None, read_file(path) or b"", run.id)
        except (StateError, ValueError):
            raise why from None
        refuse_linked(run, state.place)
        gate = _choose(run, state, which, [])
        now = now_by(state.clock)
        if gate.expires_at is not None and now >= seconds_of(gate.expires_at):
            raise why  # the clock has decided; that is recorded when the run can be read again
        said = secrets_of_run(run, workspace).text(message)
        event = GateDecided(*gate.visited, now, decision, user_name(os.environ), said)
        counted, is_ours = cast(run.root, event)
        if not is_ours and replace(counted, at=event.at) != event:
            raise _decided_already(run, gate.stage, counted)
        others = gate_names([other for other in state.pending if other != gate])
        ending = _ending_after(counted, gate.stage, others)
        note(f"orchestrate: {visible(why.message)}\n")
        if isinstance(why, JournalCorruptError):
            note("orchestrate: the decision counts once the run is repaired\n")
        else:
            append_unfolded(run, document, counted, run_ended(counted.at, ending))
    return Decided(
        gate.stage, counted.decision, counted.by, counted.message, ending.status, ending,
        node=gate.node,
    )  # fmt: skip


def _ending_after(event: GateDecided, stage: str, others: list[str]) -> Ending:
    """How a run stands after a decision, where only its state file tells."""
    if event.decision == "denied":
        return end("denied", f"{gate_words(stage, event.node)} was denied")
    if others:
        return waits_for_person((), others)
    return waits_to_be_resumed(gate_words(stage, event.node), event.decision, by_timeout=False)


def _decided_already(run: Run, stage: str, counted: GateDecided) -> UsageError:
    gate = gate_words(stage, counted.node)
    return UsageError(f"{gate} of run {run.id} was {counted.decision} already, by {counted.by}")


def _decide_live(
    run: Run, workspace: Workspace, which: Which, decision: Decision, message: str
) -> Decided | None:
    """Decide for the process that works on the run, which takes it over as soon as it asks.

    None if that process is gone before it has: then the decision is recorded from here.
    """
    view = run_view(run)
    gate = choose_live(view, which)
    said = secrets_of_run(run, workspace).text(message)
    now = now_by(view.state.clock)
    event = GateDecided(*gate.visited, now, decision, user_name(os.environ), said)
    counted, is_ours = cast(run.root, event)
    if not is_ours:
        raise _decided_already(run, gate.stage, counted)
    give_up = time.monotonic() + _TAKEN_OVER_IN_S
    while time.monotonic() < give_up:
        # In this order: of a process that is gone all is on record that it has taken over.
        owner = orchestrator_of(run)
        view = run_view(run)
        if not any(is_of(one, event) for one in view.state.pending):
            break
        if owner is None:
            return None
        if owner.pid == os.getpid():
            break  # a listener of the run decides: it goes on when the listener returns
        time.sleep(_POLL_S)
    status = view.state.status
    ending = None if status == "running" else view.state.ending
    return Decided(gate.stage, decision, event.by, said, status, ending, node=gate.node)


def choose_live(view: RunView, which: Which) -> Approval:
    """The gate that is meant, of a run that a process works on."""
    run, state = view.run, view.state
    gate = _meant(state.pending, which)
    if gate is not None:
        return gate
    stage = _stage_of(state, which)
    decided = (one for one in state.approvals if one.status != "pending")
    if not state.pending and any(stage in (None, one.stage) for one in decided):
        hint = "the run is at work and waits for no other approval now"
        raise UsageError(_why_none(run, state, stage), hint)
    if not state.pending:
        raise ConfigError(
            f"run {run.id} is at work and waits for no approval: it is {state.status}",
            "decide when it reaches a gate",
        )
    raise _unclear(run, state, state.pending, stage)


def _choose(run: Run, state: RunState, which: Which, expired: list[Decided]) -> Approval:
    """The gate that is meant, of a run that no process works on."""
    gates = state.pending if state.status in ("paused", "running") else []
    gate = _meant(gates, which)
    if gate is not None:
        return gate
    stage = _stage_of(state, which)
    for late in expired:
        if stage in (None, late.stage):
            raise UsageError(
                f"the gate of {gate_words(late.stage, late.node)} of run {run.id} has expired "
                f"and is {late.decision}",
                state.reason or "",
            )
    raise _unclear(run, state, gates, stage)


def _meant(gates: list[Approval], which: Which) -> Approval | None:
    """The gate of that stage, path or visit, or the only one that waits: never one of several."""
    if which is not None:
        gates = [gate for gate in gates if which in (path_of_gate(gate), gate.visited)] or [
            gate for gate in gates if which == gate.stage
        ]
    return gates[0] if len(gates) == 1 else None


def _stage_of(state: RunState, which: Which) -> str | None:
    """The stage of the gate that is meant, whether or not it waits."""
    if not isinstance(which, tuple):
        return which
    return next((gate.stage for gate in state.approvals if gate.visited == which), None)


def _unclear(run: Run, state: RunState, gates: list[Approval], stage: str | None) -> UsageError:
    """Several wait and none was named, or the one that was named does not wait."""
    of_stage = sum(gate.stage == stage for gate in gates)
    if gates and stage is None:
        what = f"run {run.id} waits for {len(gates)} approvals: name the stage"
    elif of_stage > 1:
        what = f"run {run.id} waits for {of_stage} approvals of '{stage}': name one by its path"
    else:
        what = _why_none(run, state, stage)
    return UsageError(what, _pending(gate_names(gates)))


def _pending(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names)
    return f"pending: {shown}" if shown else "nothing is pending"


def _why_none(run: Run, state: RunState, stage: str | None) -> str:
    decided = [gate for gate in state.approvals if gate.status != "pending"]
    for gate in reversed(decided):
        if stage in (None, gate.stage):
            at = local_time(gate.decided_at or gate.requested_at)
            return (
                f"{gate_words(gate.stage, gate.node)} of run {run.id} was {gate.status} already, "
                f"by {gate.decided_by} at {at}"
            )
    if stage is None:
        return f"run {run.id} waits for no approval: it is {state.status}"
    near = closest(stage, (gate.stage for gate in state.approvals))
    also = f" (did you mean '{near}'?)" if near else ""
    return f"run {run.id} does not wait for an approval of '{stage}'{also}"
