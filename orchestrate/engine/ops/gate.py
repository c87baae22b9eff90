"""A `Gate`: a person decides whether the run goes on; a decision counts once, for one visit."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Literal

from orchestrate.engine.evaluate import render_shown
from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.rehearse import rehearsed_decision
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.shown_values import show_value
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip
from orchestrate.errors import completed
from orchestrate.exits import end
from orchestrate.plan.nodes import Gate
from orchestrate.state.address import gate_words, shown_path
from orchestrate.state.ballots import cast, find_vote
from orchestrate.state.calls import call_deadline
from orchestrate.state.events import Event, GateDecided, GateOpened
from orchestrate.state.gates import decided_by_clock, pending_gate
from orchestrate.state.model import Frame
from orchestrate.state.result import StepResult
from orchestrate.state.rounds import step_of_part
from orchestrate.state.times import seconds_of

Decision = Literal["approved", "denied"]

# Of what a person is to approve, at a terminal.
_LONGEST_REVIEWED = 4000
_MOST_LINES = 40


def open_gate(step: Step, op: Gate) -> Event:
    """Ask: the question is written down with its variables filled in.

    A question that cannot be asked ends the run: there is nothing to approve.
    """
    now = step.rt.now()
    try:
        prompt = step.rt.secrets.text(
            render_shown(op.prompt, step.scope, partial(show_value, step))
        )
    except StepFault as fault:
        reason = f"{gate_words(op.stage, step.node.id)} cannot be asked for: {fault.message}"
        return step.rt.ended(end("failed", step.rt.secrets.text(reason)))
    expires = None if op.timeout_s is None else now + op.timeout_s
    return GateOpened(
        step.frame.key, step.node.id, step.here.visit, now, op.stage, prompt, op.default, expires,
        step.key,
    )  # fmt: skip


def decide_at_terminal(rt: Runtime, frame: Frame) -> GateDecided | None:
    """Ask the person at the terminal; None without one, or without an answer yet."""
    gate = pending_gate(rt.store.state, frame)
    played = None if rt.rehearsal is None else rehearsed_decision(rt, rt.rehearsal, frame)
    if played is not None:
        decided = GateDecided(*gate.visited, rt.now(), played[0], "rehearsal", played[1])
        return cast(rt.run.root, decided)[0]
    own_end = None if gate.expires_at is None else seconds_of(gate.expires_at)
    limits = (own_end, call_deadline(rt.store.index, frame))
    until = min((limit for limit in limits if limit is not None), default=None)
    left = None if until is None else max(0.0, until - rt.now())
    # Readers elsewhere must see that it waits, and for what.
    rt.store.checkpoint()
    question = gate.prompt + _under_review(rt, frame, gate.prompt)
    what = gate_words(gate.stage, gate.node)
    answer = rt.operator.decide_gate(what, question, left, lambda: decided_elsewhere(rt, frame))
    elsewhere = decided_elsewhere(rt, frame)
    if answer is None:
        # The time may be up while the person said nothing.
        own = decided_by_clock(rt.store.state, frame, rt.now())
    else:
        decision, message = answer
        said = rt.secrets.text(message)
        own = GateDecided(*gate.visited, rt.now(), decision, rt.user, said)
    if own is None and elsewhere is None:
        return None
    counted, is_own = cast(rt.run.root, own) if own is not None else (elsewhere, False)
    if not is_own and counted is not None:
        rt.operator.tell_decided(what, counted.decision, counted.by)
    return counted


def _under_review(rt: Runtime, frame: Frame, prompt: str) -> str:
    """What the last step before the gate has made, unless the question shows it already."""
    made = _made_last(frame)
    if made is None or made[1].output.strip() in prompt:
        return ""
    path, result = made
    text = result.output.strip()
    lines = clip(text, _LONGEST_REVIEWED).splitlines()
    shown = "\n".join(f"| {line}" for line in lines[:_MOST_LINES])
    whole = completed(shlex.join(["orchestrate", "logs", rt.facts.id, path]))
    return f"\n\nFrom step '{path}' (all of it: {whole}):\n{shown}"


def _made_last(frame: Frame) -> tuple[str, StepResult] | None:
    """The newest result with a text, of the item that the gate belongs to or of what is around it.

    A step that the run came back to stands where it stood at its first visit, so their order does
    not tell. It has the answer of its last round; what its check printed is not to be reviewed.
    """
    made = [
        (shown_path(frame.key, name), result)
        for name, result in reversed(frame.steps.items())
        if result.status == "completed" and result.output.strip() and not step_of_part(name)[1]
    ]
    if made:
        return max(made, key=lambda one: one[1].completed_at)
    if not frame.is_iteration or frame.parent is None:
        return None
    return _made_last(frame.parent)


def decided_elsewhere(rt: Runtime, frame: Frame) -> GateDecided | None:
    """What was decided about the gate at a frame's cursor outside of this process."""
    gate = pending_gate(rt.store.state, frame)
    vote = find_vote(rt.run.root, gate)
    if vote is None:
        return None
    return GateDecided(*gate.visited, rt.now(), vote.decision, vote.by, vote.message)
