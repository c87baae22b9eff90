"""The only code that touches the world: one step is performed and becomes events."""

from __future__ import annotations

from orchestrate.engine.budgets import budget_reached
from orchestrate.engine.conditions import is_met
from orchestrate.engine.faults import Halted, StepFault
from orchestrate.engine.keys import files_made, key_of
from orchestrate.engine.limits import LimitFault, TotalFault, ends_the_run, limit_reached
from orchestrate.engine.ops.ask import perform_ask
from orchestrate.engine.ops.calls import open_call
from orchestrate.engine.ops.command import needs, perform_run
from orchestrate.engine.ops.frames import open_loop
from orchestrate.engine.ops.gate import open_gate
from orchestrate.engine.ops.rehearse import rehearse_run, rehearse_wait, rehearsed_call
from orchestrate.engine.ops.resolve import unless_marked
from orchestrate.engine.ops.wait import perform_wait
from orchestrate.engine.programs import was_started
from orchestrate.engine.progress import progress_lacking
from orchestrate.engine.reserving import given_back, reserve
from orchestrate.engine.reuse import reuse
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.engine.whole_output import NotWhole, void
from orchestrate.errors import KeeperSilent
from orchestrate.exits import end, steps_exceeded
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import FAILED, SKIPPED, Ask, Call, Each, Gate, Run, Wait
from orchestrate.record import replace
from orchestrate.state.calls import Expired, expired_call
from orchestrate.state.events import CallExpired, Event, StepFinished
from orchestrate.state.model import Frame
from orchestrate.state.result import StepResult


def perform(rt: Runtime, frame: Frame, *, may_wait: bool = False) -> list[Event]:
    """Perform the step at a frame's cursor. Its faults are its result; they never leave here.

    `may_wait`: what others are about to end with may make room for it; `NoRoom` is for the caller.
    """
    step = Step(rt, frame)
    try:
        has_begun = _is_program(step) and was_started(rt, step.attempt_id)
        if step.is_announced and _is_program(step) and not has_begun:
            # Perhaps a night ago: the step's time is that of the work done from now on.
            step.began_at = rt.now()
        if step.is_announced or has_begun:
            return _unless_expired(step, _do(step))
        if rt.earlier is not None and not step.here.attempt:
            taken_over = reuse(step)
            if taken_over is not None:
                return taken_over
            # What was taken over is derived again only as long as nothing has run behind it.
            rt.store.sync()
        skipped = skip_of(step)
        if skipped is not None:
            return [skipped]
        index = rt.store.index
        reached = limit_reached(index, frame, step.node, step.plan)
        reached = reached or progress_lacking(index, frame, step.node)
        reached = reached or budget_reached(index, rt.store.state, frame, step.node, rt.now())
        reached = reached or reserve(step, may_wait=may_wait)
        if reached is not None:
            return [rt.ended(reached)]
        return _unless_expired(step, _do(step))
    except TotalFault as fault:
        return [rt.ended(steps_exceeded(fault.message, fault.wanted))]
    except LimitFault as fault:
        finished = step.failed(fault)
        if not ends_the_run(rt.store.index, frame):
            return [finished]
        return [finished, rt.ended(end("limit", fault.message))]
    except StepFault as fault:
        return [step.failed(fault)]
    except Halted:
        return given_back(step)
    except KeeperSilent:
        if rt.stop.is_requested:
            return []
        raise
    except NotWhole as lack:
        return void(step, lack)


def _is_program(step: Step) -> bool:
    return isinstance(step.node.op, Run | Ask) and not step.is_rehearsed


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
    if not step.key and not step.is_announced:
        step.key = key_of(step)
    events = _perform_op(step)
    made = files_made(step)
    if not made:
        return events
    return [replace(e, made=made) if isinstance(e, StepFinished) else e for e in events]


def _perform_op(step: Step) -> list[Event]:
    if not isinstance(step.node.op, Run) or step.is_rehearsed:
        # Only programs of the keeper's are on record twice.
        step.rt.store.sync()
    if isinstance(step.node.op, Wait | Each | Call) and not step.is_announced:
        needs(step)
    match step.node.op:
        case Run() as op if step.is_rehearsed:
            return [rehearse_run(step, op)]
        case Wait() as op if step.is_rehearsed:
            return [rehearse_wait(step, op)]
        case Run() as op:
            return [perform_run(step, op)]
        case Ask() as op:
            events = perform_ask(step, op)
            return [unless_marked(step, one) for one in events] if op.resolves else events
        case Wait() as op:
            return [perform_wait(step, op)]
        case Each() as op:
            return [open_loop(step, op)]
        case Call() as op:
            failed = rehearsed_call(step, op) if step.is_rehearsed else None
            return [failed or open_call(step, op)]
        case Gate() as op:
            return [open_gate(step, op)]


def _status_of(frame: Frame, node: str, name: str) -> str:
    """What became of a step of this frame, or of one around it in the same plan."""
    around: Frame | None = frame
    while around is not None:
        loop = around.loops.get(node)
        if loop is not None:
            return "failed" if loop.failed else "completed"
        if name in around.steps:
            return around.steps[name].status
        around = around.parent if around.is_iteration else None
    return "skipped"


def skip_of(step: Step) -> Event | None:
    """A step is skipped when one it depends on was, or failed, or its condition does not hold."""
    node = step.node
    why = _stage_skipped(step)
    if why is not None:
        return _skipped(step, why)
    for other_id in node.after:
        other = step.rt.store.index.place(step.frame.plan, other_id).node
        status = _status_of(step.frame, other_id, other.name)
        if status in ("skipped", "failed"):
            was = "was skipped" if status == "skipped" else "failed"
            reason = f"depends on '{other.name}', which {was}"
            return _skipped(step, StepResult(reason=reason))
    if node.guard is None or is_met(step.rt, node.guard, step.scope):
        return None
    why = StepResult(reason="condition evaluated to false", condition=show(node.guard))
    return _skipped(step, why)


def _stage_skipped(step: Step) -> StepResult | None:
    """Why the stage of a step is skipped; None if it is not. What its first step has found holds
    for all, whatever has changed since; a first step that failed may not have found anything."""
    node, head = step.node, step.node
    if node.stage_head is not None:
        head = step.rt.store.index.place(step.frame.plan, node.stage_head).node
    if head.stage_guard is None:
        return None
    why = StepResult(
        reason=f"the condition of stage '{node.stage}' evaluated to false",
        condition=show(head.stage_guard),
    )
    known = step.frame.steps.get(head.name) if head is not node else None
    if known is not None and known.status != "failed":
        return why if known.status == "skipped" and known.reason == why.reason else None
    if head is not node and head.id in step.frame.loops:
        return None
    return None if is_met(step.rt, head.stage_guard, step.scope) else why


def _skipped(step: Step, why: StepResult) -> Event:
    finished = step.finished(SKIPPED, step.result("skipped", 0, why))
    return replace(finished, key=step.key or key_of(step))
