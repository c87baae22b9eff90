"""Calls of other plans: what they are given, and what a plan gives when it is over."""

from __future__ import annotations

from typing import Any

from orchestrate.engine.evaluate import evaluate, render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.limits import check_depth, restart_limit
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.scope import StepScope
from orchestrate.engine.step import Step
from orchestrate.errors import OrchestrateError
from orchestrate.plan.calling import takes_inputs_only
from orchestrate.plan.nodes import Call, Plan
from orchestrate.state.events import CallOpened, Event, OutputsGiven
from orchestrate.state.model import Frame


def open_call(step: Step, op: Call) -> Event:
    """Begin a called plan: its own context, overlaid by what is passed, and nothing else."""
    rt = step.rt
    late: dict[str, str] = {}
    again = step.here.turn.get("restart")
    if again is not None:
        called = rt.store.index.plan(again)
        exceeded = restart_limit(rt.store.state, called)
        if exceeded is not None:
            return rt.ended(exceeded)
    elif isinstance(op.plan, str):
        called = rt.store.index.plan(op.plan)
    else:
        called, late = rt.library.find_plan(render(op.plan, step.scope), step.frame.plan)
    check_depth(rt.store.index, step.frame, op, called)
    given = _given(rt, called, evaluate(op.arguments, step.scope), is_restart=again is not None)
    context = evaluate(called.context, step.scope) | given
    stored = {key: rt.store_value(value) for key, value in context.items()}
    return CallOpened(
        step.frame.key, step.node.id, step.here.visit, rt.now(), called.id, stored, late, step.key,
        op.spread if rt.spreader is not None else "",
    )  # fmt: skip


def _given(
    rt: Runtime, called: Plan, arguments: dict[str, Any], *, is_restart: bool
) -> dict[str, Any]:
    """The arguments as the called plan reads them; those of its inputs are held against them."""
    inputs = {one.name: one for one in called.inputs}
    if is_restart:
        # A machine that restarts as another one hands on what that one knows.
        arguments = {name: value for name, value in arguments.items() if name in inputs}
    unknown = [name for name in arguments if name not in inputs]
    if unknown and takes_inputs_only(called):
        raise StepFault(f"{called.id} has no input '{unknown[0]}'")
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        if rt.secrets.data(value) != value:
            # Only its mask would be kept, and taken for the value.
            raise StepFault(
                f"'{name}' holds a secret, which a call cannot hand over: declare it as an input "
                f"with secret: true in {called.id}"
            )
        try:
            given[name] = rt.library.settle(inputs[name], value) if name in inputs else value
        except OrchestrateError as error:
            raise StepFault(f"{called.id}: {error.message}") from None
    missing = [
        one.name
        for one in called.inputs
        if one.default is None and not one.secret and one.name not in given
    ]
    if missing:
        raise StepFault(f"{called.id} is not given its input '{missing[0]}'")
    return given


def give_outputs(rt: Runtime, frame: Frame) -> Event:
    """Work out what a plan gives in the end; what has no value is left out, and said."""
    scope = StepScope(rt.store.index, rt.store.state, frame, rt.facts, rt.restore_value)
    outputs: dict[str, Any] = {}
    undefined: dict[str, str] = {}
    for name, expression in rt.store.index.plan(frame.plan).outputs.items:
        try:
            value = evaluate(expression, scope)
        except StepFault as fault:
            undefined[name] = rt.secrets.text(fault.message)
        else:
            outputs[name] = rt.store_value(rt.secrets.data(value))
    return OutputsGiven(frame.key, rt.now(), outputs, undefined)
