"""The bounds of a plan: visits, steps, restarts, depth; asked where a step is about to begin."""

from __future__ import annotations

from orchestrate.engine.faults import StepFault
from orchestrate.plan.nodes import Call, Gate, Node, Plan
from orchestrate.state.model import Frame, Index, RunState, depth_of, plan_frame, plan_stack


class LimitFault(StepFault):
    """A bound of the author's, or of the command line, was reached."""


def limit_reached(
    index: Index, state: RunState, frame: Frame, node: Node, plan: Plan, *, ahead: int = 0
) -> str:
    """Why the step at the cursor may not begin, or ''; `ahead` others are about to begin."""
    here = frame.here
    if here is None or here.since or isinstance(node.op, Gate):
        return ""
    if plan.dialect == "machine":
        return _machine_limit(state, frame, node, plan)
    return _tree_limit(index, frame, ahead)


def _machine_limit(state: RunState, frame: Frame, node: Node, plan: Plan) -> str:
    """A §2.6, with its words."""
    limits = plan.limits
    if limits.max_visits is not None and frame.visits.get(node.id, 0) >= limits.max_visits:
        return f"max-step-visits-exceeded:{node.name}"
    if limits.max_steps is not None and state.steps_run >= limits.max_steps:
        return "max-total-steps"
    return ""


def _tree_limit(index: Index, frame: Frame, ahead: int) -> str:
    """The steps of each plan around the frame, those of the plans it calls included (B)."""
    plan: Frame | None = plan_frame(frame)
    while plan is not None:
        most = index.plan(plan.plan).limits.max_steps
        if plan.parent is not None:
            call = index.here(plan.parent).node.op
            if isinstance(call, Call) and call.max_steps is not None:
                most = call.max_steps if most is None else min(most, call.max_steps)
        if most is not None and plan.count + ahead >= most:
            stack = " → ".join(plan_stack(frame))
            return f"max_total_steps reached: {plan.count} of {most} steps have run ({stack})"
        plan = plan_frame(plan.parent) if plan.parent is not None else None
    return ""


def check_depth(index: Index, frame: Frame, call: Call, called: Plan) -> None:
    """A call may not go deeper than any of the plans around it allows (rulings §8)."""
    depth = depth_of(frame) + 1
    bounds = [index.plan(plan_id).limits.max_depth for plan_id in plan_stack(frame)]
    bounds.append(call.max_depth)
    outer: Frame | None = plan_frame(frame)
    while outer is not None and outer.parent is not None:
        op = index.here(outer.parent).node.op
        bounds.append(op.max_depth if isinstance(op, Call) else None)
        outer = plan_frame(outer.parent)
    most = min((bound for bound in bounds if bound is not None), default=None)
    if most is not None and depth > most:
        stack = " → ".join([*plan_stack(frame), called.id])
        raise LimitFault(
            f"recipe recursion depth {depth} exceeds limit {most}. Recipe stack: {stack}",
            {"stack": [*plan_stack(frame), called.id]},
            exit_code=3,
        )


def ends_the_run(index: Index, frame: Frame) -> bool:
    """Would a failure of the step at the cursor end the run? Not if a step around it goes on."""
    inner: Frame | None = frame
    while inner is not None:
        # What fails in an iteration fails its loop, and the loop's own rule counts.
        if not inner.is_iteration and index.here(inner).node.on_failure != "stop":
            return False
        inner = inner.parent
    return True


def restart_limit(state: RunState, plan: Plan) -> str:
    most = plan.limits.max_restarts
    if most is not None and state.restarts >= most:
        return f"max-restarts-exceeded:{most}"
    return ""
