"""A `Gate`: a person decides whether the run goes on; a decision counts once, for one visit."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Literal

from orchestrate.engine.evaluate import render_shown, render_value
from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.rehearse import rehearsed_decision
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip, sendable
from orchestrate.exits import end
from orchestrate.plan.expr import Ref
from orchestrate.plan.nodes import Each, Gate
from orchestrate.state.address import gate_words
from orchestrate.state.ballots import cast, find_vote
from orchestrate.state.events import Event, GateDecided, GateOpened
from orchestrate.state.gates import decided_by_clock, pending_gate
from orchestrate.state.model import Frame, plan_frame
from orchestrate.state.rounds import step_of_part
from orchestrate.state.times import seconds_of

Decision = Literal["approved", "denied"]

# A list or an object in a question: on one line up to here, then one line for each part of it.
_SHORT = 60
_MOST_LINES = 40
_LONGEST_TEXT = 400
# Of what a person is to approve, at a terminal.
_LONGEST_REVIEWED = 4000


def open_gate(step: Step, op: Gate) -> Event:
    """Ask: the question is written down with its variables filled in.

    A question that cannot be asked ends the run: there is nothing to approve.
    """
    now = step.rt.now()
    try:
        prompt = step.rt.secrets.text(render_shown(op.prompt, step.scope, partial(_shown, step)))
    except StepFault as fault:
        reason = f"the approval of stage '{op.stage}' cannot be asked for: {fault.message}"
        return step.rt.ended(end("failed", step.rt.secrets.text(reason)))
    expires = None if op.timeout_s is None else now + op.timeout_s
    return GateOpened(
        step.frame.key, step.node.id, step.here.visit, now, op.stage, prompt, op.default, expires,
        step.key,
    )  # fmt: skip


def _shown(step: Step, ref: Ref, value: Any) -> str:
    """A value as people read it: JSON with a line for each part, what is long cut off."""
    compact = render_value(value)
    if not isinstance(value, list | dict) or len(compact) <= _SHORT:
        return compact
    whole = json.dumps(_clipped(_by_item(step, ref, value)), ensure_ascii=False, indent=2)
    lines = sendable(whole).splitlines()
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        name = ref.path[1] if ref.path[0] == "var" and len(ref.path) > 1 else ref.text
        lines[_MOST_LINES:] = [f"… {left_out} more lines; the whole: `{name}` in the run's state"]
    return "\n".join(lines)


def _by_item(step: Step, ref: Ref, value: Any) -> Any:
    """What a loop has collected, under the names of its items where they are names."""
    outer = plan_frame(step.frame)
    for node_id, loop in outer.loops.items():
        op = step.rt.store.index.place(step.frame.plan, node_id).node.op
        if not isinstance(op, Each) or ref.path != ("var", op.collect):
            continue
        names = [item for item in loop.items if isinstance(item, str)]
        if len(set(names)) == len(loop.items) == len(value):
            return dict(zip(names, value, strict=True))
    return value


def _clipped(value: Any) -> Any:
    match value:
        case str():
            return clip(value, _LONGEST_TEXT)
        case list():
            return [_clipped(item) for item in value]
        case dict():
            return {key: _clipped(item) for key, item in value.items()}
        case _:
            return value


def decide_at_terminal(rt: Runtime, frame: Frame) -> GateDecided | None:
    """Ask the person at the terminal; None without one, or without an answer yet."""
    gate = pending_gate(rt.store.state, frame)
    played = None if rt.rehearsal is None else rehearsed_decision(rt, rt.rehearsal, frame)
    if played is not None:
        decided = GateDecided(*gate.visited, rt.now(), played[0], "rehearsal", played[1])
        return cast(rt.run.root, decided)[0]
    expires = gate.expires_at
    left = None if expires is None else max(0.0, seconds_of(expires) - rt.now())
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
    # A step has the answer of its last round; what its check printed is not to be reviewed.
    made = [
        (name, result.output.strip())
        for name, result in plan_frame(frame).steps.items()
        if result.status == "completed" and result.output.strip() and not step_of_part(name)[1]
    ]
    if not made or made[-1][1] in prompt:
        return ""
    name, text = made[-1]
    lines = clip(text, _LONGEST_REVIEWED).splitlines()
    shown = "\n".join(f"| {line}" for line in lines[:_MOST_LINES])
    return f"\n\nFrom step '{name}' (all of it: orchestrate logs {rt.facts.id} {name}):\n{shown}"


def decided_elsewhere(rt: Runtime, frame: Frame) -> GateDecided | None:
    """What was decided about the gate at a frame's cursor outside of this process."""
    gate = pending_gate(rt.store.state, frame)
    vote = find_vote(rt.run.root, gate)
    if vote is None:
        return None
    return GateDecided(*gate.visited, rt.now(), vote.decision, vote.by, vote.message)
