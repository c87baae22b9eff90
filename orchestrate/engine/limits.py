"""The bounds of a plan: visits, steps, restarts, depth; asked where a step is about to begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.engine.faults import StepFault
from orchestrate.exits import (
    STEP_OVER_LIMIT,
    Ending,
    restarts_exceeded,
    steps_exceeded,
    visits_exceeded,
)
from orchestrate.plan.calling import name_of_total
from orchestrate.plan.nodes import (
    DENIED,
    FAILED,
    INVALID,
    LOST,
    Abort,
    Ask,
    Call,
    Each,
    Gate,
    Goto,
    Leave,
    Node,
    Plan,
    PlanId,
    Run,
    Target,
    Wait,
    may_be_skipped,
)
from orchestrate.state.model import Frame, Index, RunState, depth_of, plan_frame, plan_stack


class LimitFault(StepFault):
    """A bound of the author's, or of the command line, was reached."""

    def __init__(self, message: str, context: dict[str, Any]) -> None:
        super().__init__(message, context, exit_code=STEP_OVER_LIMIT)


def limit_reached(
    index: Index, frame: Frame, node: Node, plan: Plan, *, ahead: int = 0
) -> Ending | None:
    """How the run ends if the step at the cursor may not begin; `ahead` others are about to."""
    here = frame.here
    if here is None or here.since or node.part_of:
        return None
    # The gate of a stage and a loop are not steps of their own; but it may be on a circle.
    is_step = node.is_step and not isinstance(node.op, Each)
    most = node.most_visits
    if plan.limits.max_visits is not None and (is_step or most is not None):
        most = plan.limits.max_visits
    if most is not None and frame.visits.get(node.id, 0) >= most:
        return visits_exceeded(node.name)
    if not is_step:
        return None
    for whose, count, total in _totals(index, frame):
        if count + ahead >= total:
            return _steps_exceeded(index, frame, whose, count, total)
    return None


def _steps_exceeded(index: Index, frame: Frame, whose: Frame, count: int, most: int) -> Ending:
    name = name_of_total(index.plan(whose.plan))
    if not name:
        return steps_exceeded()
    stack = " → ".join(plan_stack(frame))
    return steps_exceeded(
        f"{name} reached: {count} of {most} steps have run ({stack}); --max-steps allows more"
    )


def _totals(index: Index, frame: Frame) -> Iterator[tuple[Frame, int, int]]:
    """Each plan around the frame that has a limit: the steps that it has run, and the most."""
    plan: Frame | None = plan_frame(frame)
    while plan is not None:
        most = index.plan(plan.plan).limits.max_steps
        if plan.parent is not None:
            call = index.here(plan.parent).node.op
            if isinstance(call, Call) and call.max_steps is not None:
                most = call.max_steps if most is None else min(most, call.max_steps)
        if most is not None:
            yield plan, plan.count, most
        plan = plan_frame(plan.parent) if plan.parent is not None else None


# Before a loop's first item is paid for.


class TotalFault(LimitFault):
    """A loop that is certain to exceed the steps that are left: the run ends where it stands."""

    def __init__(self, message: str, context: dict[str, Any], wanted: int) -> None:
        super().__init__(message, context)
        self.wanted = wanted


def check_total(index: Index, frame: Frame, each: Each, items: int) -> None:
    """Refuse a loop that cannot come to its end; only what is certain counts.

    Where a failed item leads anywhere but to the run's end, the loop may be left early.
    """
    if not items or not ends_the_run(index, frame):
        return
    needed = items * _certain_steps(index, frame.plan, each.body, ())
    totals = list(_totals(index, frame))
    for whose, count, most in totals:
        if needed > most - count:
            name = name_of_total(index.plan(whose.plan)) or "maxTotalSteps"
            stack = " → ".join(plan_stack(frame))
            # The flag widens the limits of all plans around the loop at once.
            wanted = needed + max(ran for _, ran, _ in totals)
            raise TotalFault(
                f"the loop over {items} items takes at least {needed} steps, and {name} leaves "
                f"{most - count} of {most} ({stack}): allow {wanted} with --max-steps, or loop "
                "over fewer items",
                {"items": items, "steps": needed, "limit": name, "most": most},
                wanted,
            )


def _certain_steps(index: Index, plan_id: PlanId, block_id: str, calls: tuple[PlanId, ...]) -> int:
    """How many steps run in any case before a block is left by anything but a failure."""
    block = index.block(plan_id, block_id)
    nodes = {node.id: node for node in block.nodes}
    steps = 0
    here: Node | None = nodes[block.entry]
    while here is not None:
        if not may_be_skipped(here):
            steps += _certain_steps_of(index, here, calls)
        if any(target != here.follow for target in _ways_on(here)):
            break
        # Each only once: what leads back is not certain.
        del nodes[here.id]
        here = nodes.get(here.follow.node) if isinstance(here.follow, Goto) else None
    return steps


def _certain_steps_of(index: Index, node: Node, calls: tuple[PlanId, ...]) -> int:
    match node.op:
        case Gate(is_step=False) | Each():  # the one counts as no step, the other may have no items
            return 0
        case Call(str(called)) if called not in calls:
            first = index.plan(called).blocks[0].id
            return 1 + _certain_steps(index, called, first, (*calls, called))
        case Call() | Ask() | Run() | Wait() | Gate():
            return 1


def _ways_on(node: Node) -> Iterator[Target]:
    """Where the step can lead without that anything fails or waits for a person."""
    for label, target in node.routes:
        is_end = label in (LOST, INVALID, DENIED) or isinstance(target, Abort)
        if not is_end and not (label == FAILED and _fails_with_it(node, target)):
            yield target


def _fails_with_it(node: Node, target: Target) -> bool:
    """An item's failure is its loop's."""
    return node.on_failure == "stop" or target == Leave(FAILED)


def check_depth(index: Index, frame: Frame, call: Call, called: Plan) -> None:
    """A call may not go deeper than the plans around it allow (rulings §8).

    A called recipe's own limit never widens what it inherits; that of the step that calls it may.
    """
    depth = depth_of(frame) + 1
    most = _depth_allowed(index, frame) if call.max_depth is None else call.max_depth
    if most is not None and depth > most:
        stack = " → ".join([*plan_stack(frame), called.id])
        raise LimitFault(
            f"recipe recursion depth {depth} exceeds limit {most}. Recipe stack: {stack}",
            {"stack": [*plan_stack(frame), called.id]},
        )


def _depth_allowed(index: Index, frame: Frame) -> int | None:
    plan = plan_frame(frame)
    own = index.plan(plan.plan).limits.max_depth
    if plan.parent is None:
        return own
    call = index.here(plan.parent).node.op
    inherited = call.max_depth if isinstance(call, Call) else None
    if inherited is None:
        inherited = _depth_allowed(index, plan.parent)
    return min((bound for bound in (inherited, own) if bound is not None), default=None)


def ends_the_run(index: Index, frame: Frame) -> bool:
    """Would a failure of the step at the cursor end the run? Not if a step around it goes on."""
    inner: Frame | None = frame
    while inner is not None:
        # What fails in an iteration fails its loop, and the loop's own rule counts.
        if not inner.is_iteration and index.here(inner).node.on_failure != "stop":
            return False
        inner = inner.parent
    return True


def restart_limit(state: RunState, plan: Plan) -> Ending | None:
    most = plan.limits.max_restarts
    if most is not None and state.restarts >= most:
        return restarts_exceeded(most)
    return None
