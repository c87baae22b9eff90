"""The only code that touches the world: one step is performed and becomes events."""

from __future__ import annotations

from orchestrate.engine.evaluate import holds
from orchestrate.engine.faults import Halted, StepFault
from orchestrate.engine.limits import LimitFault, TotalFault, ends_the_run, limit_reached
from orchestrate.engine.ops.ask import perform_ask
from orchestrate.engine.ops.command import perform_run
from orchestrate.engine.ops.frames import open_call, open_loop
from orchestrate.engine.ops.gate import open_gate
from orchestrate.engine.ops.wait import perform_wait
from orchestrate.engine.patterns import match_pattern
from orchestrate.engine.programs import was_started
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.engine.whole_output import NotWhole, void
from orchestrate.errors import KeeperSilent
from orchestrate.exits import end
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import FAILED, SKIPPED, Ask, Call, Each, Gate, Run, Wait
from orchestrate.state.calls import Expired, expired_call
from orchestrate.state.events import CallExpired, Event, StepFinished
from orchestrate.state.model import Frame, plan_frame
from orchestrate.state.result import StepResult


def perform(rt: Runtime, frame: Frame) -> list[Event]:
    """Perform the step at a frame's cursor. Its faults are its result; they never leave here."""
    step = Step(rt, frame)
    try:
        if step.is_announced or was_started(rt, step.attempt_id):
            return _unless_expired(step, _do(step))
        skipped = _skip(step)
        if skipped is not None:
            return [skipped]
        reached = limit_reached(rt.store.index, rt.store.state, frame, step.node, step.plan)
        if reached is not None:
            return [rt.ended(reached)]
        return _unless_expired(step, _do(step))
    except TotalFault as fault:
        return [rt.ended(end("limit", fault.message))]
    except LimitFault as fault:
        finished = step.failed(fault)
        if not ends_the_run(rt.store.index, frame):
            return [finished]
        return [finished, rt.ended(end("limit", fault.message))]
    except StepFault as fault:
        return [step.failed(fault)]
    except Halted:
        return []
    except KeeperSilent:
        if rt.stop.is_requested:
            return []
        raise
    except NotWhole as lack:
        return void(step, lack)


def _unless_expired(step: Step, events: list[Event]) -> list[Event]:
    """A step that was ended because a call around it ran out of time is given up with the call."""
    failed = next((e for e in events if isinstance(e, StepFinished) and e.label == FAILED), None)
    if failed is None:
        return events
    expired = expired_call(step.rt.store.index, step.frame, step.rt.now())
    if expired is None:
        return events
    return [step.ended("stopped", failed.result), expiry(expired, step.rt.now())]


def expiry(expired: Expired, now: float) -> CallExpired:
    here = expired.caller.here
    assert here is not None
    return CallExpired(expired.caller.key, here.node, here.visit, now, expired.timeout_s)


def _do(step: Step) -> list[Event]:
    match step.node.op:
        case Run() as op:
            return [perform_run(step, op)]
        case Ask() as op:
            return perform_ask(step, op)
        case Wait() as op:
            return [perform_wait(step, op)]
        case Each() as op:
            return [open_loop(step, op)]
        case Call() as op:
            return [open_call(step, op)]
        case Gate() as op:
            return [open_gate(step, op)]


def _skip(step: Step) -> Event | None:
    """A step is skipped when one it depends on was, or failed, or its condition does not hold."""
    node = step.node
    outer = plan_frame(step.frame)
    for other_id in node.after:
        other = step.rt.store.index.place(step.frame.plan, other_id).node
        loop = outer.loops.get(other_id)
        if loop is not None:
            status = "failed" if loop.failed else "completed"
        else:
            found = outer.steps.get(other.name)
            status = "skipped" if found is None else found.status
        if status in ("skipped", "failed"):
            was = "was skipped" if status == "skipped" else "failed"
            reason = f"depends on '{other.name}', which {was}"
            return step.finished(SKIPPED, step.result("skipped", 0, StepResult(reason=reason)))
    if node.guard is None:
        return None
    workspace = step.rt.workspace
    if holds(node.guard, step.scope, lambda pattern: bool(match_pattern(workspace, pattern))):
        return None
    why = StepResult(reason="condition evaluated to false", condition=show(node.guard))
    return step.finished(SKIPPED, step.result("skipped", 0, why))
