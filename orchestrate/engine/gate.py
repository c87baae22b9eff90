"""A `Gate`: a person decides whether the run goes on; a decision counts once, for one visit."""

from __future__ import annotations

from typing import Any, Literal

from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import Gate
from orchestrate.state.events import Event, GateDecided, GateOpened
from orchestrate.state.model import Frame, RunState, frames_below
from orchestrate.state.times import seconds_of

Decision = Literal["approved", "denied"]


def open_gate(step: Step, op: Gate) -> Event:
    """Ask: the question is written down with its variables filled in.

    A question that cannot be asked ends the run: there is nobody who could approve it.
    """
    now = step.rt.now()
    try:
        prompt = step.rt.secrets.text(render(op.prompt, step.scope))
    except StepFault as fault:
        reason = f"the approval of stage '{op.stage}' cannot be asked for: {fault.message}"
        return step.rt.ended("failed", step.rt.secrets.text(reason), 1)
    expires = None if op.timeout_s is None else now + op.timeout_s
    return GateOpened(
        step.frame.key, step.node.id, step.here.visit, now, op.stage, prompt, op.default, expires
    )


def asking_frames(state: RunState) -> list[Frame]:
    """The frames that wait for a decision."""
    return [
        frame
        for frame in frames_below(state.root)
        if frame.here is not None and frame.here.phase == "asking"
    ]


def overdue(state: RunState, now: float) -> list[GateDecided]:
    """The decisions that the clock has made; whoever looks next applies them (rulings §8)."""
    decided = (_decided_by_clock(state, frame, now) for frame in asking_frames(state))
    return [decision for decision in decided if decision is not None]


def _decided_by_clock(state: RunState, frame: Frame, now: float) -> GateDecided | None:
    gate = pending_gate(state, frame)
    expires = gate["expires_at"]
    if expires is None or now < seconds_of(expires):
        return None
    decision: Decision = "approved" if gate["default"] == "approve" else "denied"
    return GateDecided(frame.key, gate["node"], gate["visit"], now, decision, "timeout")


def pending_gate(state: RunState, frame: Frame) -> dict[str, Any]:
    """The record of the gate at a frame's cursor."""
    assert frame.here is not None
    key = (frame.key, frame.here.node, frame.here.visit)
    return next(
        gate
        for gate in reversed(state.approvals)
        if (gate["frame"], gate["node"], gate["visit"]) == key
    )


def decide_at_terminal(rt: Runtime, frame: Frame) -> GateDecided | None:
    """Ask whoever sits there; None if nobody does, or nobody wants to say yet."""
    gate = pending_gate(rt.store.state, frame)
    expires = gate["expires_at"]
    left = None if expires is None else max(0.0, seconds_of(expires) - rt.now())
    # Whoever looks from elsewhere must see that it waits, and for what.
    rt.store.checkpoint()
    answer = rt.people.decide_gate(str(gate["stage"]), str(gate["prompt"]), left)
    if answer is None:
        # The time may be up while somebody sat there and said nothing.
        return _decided_by_clock(rt.store.state, frame, rt.now())
    decision, message = answer
    assert frame.here is not None
    return GateDecided(
        frame.key,
        frame.here.node,
        frame.here.visit,
        rt.now(),
        decision,
        rt.user,
        rt.secrets.text(message),
    )
