"""A step that is only gone through: nothing is started, changed or waited for.

It takes the same way to its result as a real one, so that what a rehearsal finds holds for a run.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from orchestrate.engine.evaluate import render, render_pattern
from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.command import debug_record, needs, nothing_to_run, render_run
from orchestrate.engine.ops.program_result import conclude
from orchestrate.engine.outputs import read_schema_text
from orchestrate.engine.patterns import match_pattern
from orchestrate.engine.rehearsed_answers import example_text
from orchestrate.engine.rehearsing import WAITS, Rehearsal, RehearsedReport, outcome_of, passing
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.engine.texts import encode
from orchestrate.execute.base import Exit
from orchestrate.exits import STEP_FAILED
from orchestrate.plan.data import Capture
from orchestrate.plan.nodes import DENIED, FAILED, OK, Ask, Call, Label, Run, Wait
from orchestrate.record import replace
from orchestrate.state.events import Event
from orchestrate.state.model import Frame
from orchestrate.state.result import StepResult


def rehearse_run(step: Step, op: Run) -> Event:
    """A command that passes, or ends as the script says, with what later steps read."""
    needs(step)
    argv, values = render_run(op, step.scope)
    if not argv:
        return nothing_to_run(step, op)
    step.announce(StepResult(debug=debug_record(step, argv, values, list(values))))
    choice = _choice(step)
    label = choice.label or passing(step.node)
    text = choice.text if choice.text is not None else _example(step) or ""
    ended = _exit(step, _code_of(op, label), text)
    return conclude(step, captured_as(step, op, text), ended, StepResult())


def rehearse_wait(step: Step, op: Wait) -> Event:
    """The files are taken for there."""
    found = match_pattern(step.rt.workspace, render_pattern(op.pattern, step.scope))
    step.announce()
    if _choice(step).label == FAILED:
        return step.failed(StepFault("the rehearsal lets it fail"))
    waited = StepResult(files=found, wait_duration_ms=0, poll_count=1, timed_out=False)
    return step.finished(OK, step.result("completed", 0, waited))


def rehearsed_call(step: Step, op: Call) -> Event | None:
    """A call that the rehearsal lets fail, without going through what it calls; None: it does."""
    if _choice(step).label not in (FAILED, "failed"):
        return None
    step.announce()
    failed = step.failed(StepFault("the rehearsal lets it fail"))
    if not op.outcomes:
        return failed
    return step.finished("failed", failed.result | StepResult(outcome="failed"))


def rehearsed_answer(step: Step) -> tuple[str, str | None]:
    """The outcome and the text of an agent's answer."""
    op = step.node.op
    assert isinstance(op, Ask)
    choice = _choice(step)
    if choice.label == FAILED:
        return FAILED, None
    if not op.outcomes:
        return "", _example(step)
    is_restarted = step.rt.store.state.restarts > 0
    usual = outcome_of(step.plan, step.node, step.here.visit, is_restarted=is_restarted)
    return choice.label or usual, None


def captured_as(step: Step, op: Ask | Run, text: str) -> Capture:
    """What the output is held against. Of our own example that is not the schema, which may ask
    for what no example can be made of (a pattern)."""
    is_own = step.is_rehearsed and op.capture.schema is not None and text == _example(step)
    return replace(op.capture, schema=None) if is_own else op.capture


def rehearsed_decision(
    rt: Runtime, rehearsal: Rehearsal, frame: Frame
) -> tuple[Literal["approved", "denied"], str] | None:
    """A gate lets pass, unless the script says otherwise; None: it waits for a person."""
    place, here = rt.store.index.here(frame), frame.here
    assert here is not None
    choice = rehearsal.choose(place.plan, place.node, here.visit)
    if choice.label == WAITS:
        return None
    return "denied" if choice.label == DENIED else "approved", choice.text or ""


def _choice(step: Step) -> RehearsedReport:
    rehearsal = step.rt.rehearsal
    assert rehearsal is not None
    earlier = step.rt.store.state.earlier_visits.get(step.node.id, 0)
    return rehearsal.choose(step.plan, step.node, earlier + step.here.visit)


def _example(step: Step) -> str | None:
    rehearsal, program = step.rt.rehearsal, step.rt.store.index.program
    assert rehearsal is not None
    return example_text(program, step.plan, step.node, _schema(step), rehearsal.variant)


def _schema(step: Step) -> Any:
    """What the output is held against; None where that cannot be read."""
    op = step.node.op
    assert isinstance(op, Ask | Run)
    if op.capture.schema is None:
        return None
    try:
        path = render(op.capture.schema, step.scope)
        kept = step.rt.library.kept_schemas()
        return json.loads(kept[path] if path in kept else read_schema_text(path, step.rt.workspace))
    except (StepFault, ValueError):
        return None


def _code_of(op: Run, label: Label) -> int:
    """An exit code that the step reports the label for."""
    if not op.exits:
        return STEP_FAILED if label == FAILED else 0
    named = dict(op.exits)
    for code, meant in named.items():
        if meant == label and code != "*":
            return int(code)
    return next(code for code in range(1, 256) if str(code) not in named)


def _exit(step: Step, code: int, text: str) -> Exit:
    now, printed = step.rt.now(), encode(text)
    return Exit(
        code=code, pid=0, started_at=now, ended_at=now, duration_s=0.0, stdout_bytes=len(printed),
        stderr_bytes=0, stdout=printed, stderr=b"", max_rss_kb=0,
    )  # fmt: skip
