"""Asks a provider that a workflow declares: a program like any other, with a prompt."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.command import (
    PreparedProgram,
    debug_record,
    job_of,
    open_tee,
    render_program,
)
from orchestrate.engine.ops.program_result import conclude
from orchestrate.engine.programs import was_started
from orchestrate.engine.prompts import compose
from orchestrate.engine.scope import WithMore
from orchestrate.engine.slots import with_slot
from orchestrate.engine.step import Step
from orchestrate.engine.texts import encode
from orchestrate.engine.whole_output import run_whole
from orchestrate.execute.base import Exit, Job
from orchestrate.plan.nodes import Ask, CommandTemplate
from orchestrate.record import record
from orchestrate.state.events import Event
from orchestrate.state.result import CallDebug, StepResult
from orchestrate.state.slots import Ticket


def ask_declared(step: Step, op: Ask, template: CommandTemplate, slot: Ticket | None) -> Event:
    prepared: PreparedProgram | None = None
    if not was_started(step.rt, step.attempt_id):
        call = _call_of(step, op, template)
        tee = open_tee(step, op.capture)
        prepared = PreparedProgram(tuple(call.argv), call.environment, call.stdin, tee)
        step.keep_prompt(call.prompt)
        step.halt_if_useless()
        step.announce(StepResult(provider=template.name, debug=call.debug))
    elif not step.is_announced:
        about = StepResult(provider=template.name)
        with suppress(StepFault):
            about |= StepResult(debug=_call_of(step, op, template).debug)
        step.announce(about, is_begun=True)

    def job() -> Job:
        assert prepared is not None
        return with_slot(job_of(step, prepared), template.name, slot)

    def look() -> float | None:
        return None if slot is None or slot.hand_over() else 1.0

    ended = run_whole(step, job, look)
    took = {"provider_ms": round(ended.duration_s * 1000)} if isinstance(ended, Exit) else None
    return conclude(step, op.capture, ended, StepResult(provider=template.name, metrics=took))


@record
class _TemplateCall:
    argv: list[str]
    environment: dict[str, str]
    stdin: bytes | None
    debug: CallDebug
    prompt: str


def _call_of(step: Step, op: Ask, template: CommandTemplate) -> _TemplateCall:
    """How a declared provider is called: its tokens filled in, the prompt among them or beside."""
    composed = compose(step, op)
    params = evaluate(template.params, step.scope)
    more: dict[tuple[str, ...], Any] = {("param", key): value for key, value in params.items()}
    scope = WithMore(step.scope, {**more, ("prompt",): composed.prompt})
    argv, values = render_program(template.argv, template.values, scope)
    environment = step.rt.secrets.environment_of(op.environment) | values
    stdin = encode(composed.prompt) if template.input_mode == "stdin" else None
    debug = debug_record(step, argv, environment, list(values))
    debug |= CallDebug(injection=composed.truncation)
    return _TemplateCall(argv, environment, stdin, debug, composed.prompt)
