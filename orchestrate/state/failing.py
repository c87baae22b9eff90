"""What a failure leads to beyond the frame it is in, and what a call that is over has given."""

from __future__ import annotations

from typing import Any

from orchestrate.exits import STEP_FAILED, Ending, end
from orchestrate.plan.calling import keeps_context, label_of_call
from orchestrate.plan.nodes import (
    FAILED,
    Abort,
    Call,
    Each,
    Finish,
    ItemMoves,
    Label,
    Leave,
    Node,
    Run,
    Target,
    target_of,
)
from orchestrate.record import replace
from orchestrate.state.calls import call_retry
from orchestrate.state.model import Frame, Index, RunState, frames_below, plan_frame, plan_stack
from orchestrate.state.result import StepError, StepResult
from orchestrate.state.spending import end_calls


def ending_of(index: Index, frame: Frame, target: Target) -> Ending | None:
    """How the run ends if a frame follows this target; None if it goes on, or ends well.

    An item whose file has to be moved first is asked again when that is done.
    """
    match target:
        case Abort(kind, reason):
            plan = plan_frame(frame)
            caller = plan.parent
            if caller is None or kind in ("denied", "lost"):
                return end(kind, reason)
            return _ending_of_call(index, plan, caller, reason)
        case Finish(reason, "exit-failed") if (caller := plan_frame(frame).parent) is not None:
            return _ending_of_call(index, plan_frame(frame), caller, reason)
        case Leave(label) if label == FAILED and frame.parent is not None:
            loop_node = index.here(frame.parent).node
            each = loop_node.op
            assert isinstance(each, Each)
            if not each.stop_on_failure or move_of(each.moves, FAILED) is not None:
                return None
            return ending_of(index, frame.parent, target_of(loop_node, FAILED))
        case _:
            return None


def _ending_of_call(index: Index, plan: Frame, caller: Frame, reason: str) -> Ending | None:
    """How the run ends if a called plan fails."""
    if call_retry(index, plan) is not None:
        return None
    node = index.here(caller).node
    assert isinstance(node.op, Call)
    target = target_of(node, label_of_call(node.op, reason, is_ok=False))
    ending = ending_of(index, caller, target)
    return None if ending is None else replace(ending, reason=with_stack(reason, plan))


def with_stack(reason: str, frame: Frame) -> str:
    """A reason with the plans that led to it, outermost first (B)."""
    stack = plan_stack(frame)
    if len(stack) == 1:
        return reason
    return f"{reason} (in {' → '.join(stack)})"


def mark_callers(frame: Frame, reason: str) -> None:
    """The steps that called the plan which failed have failed with it; their cursors stay."""
    called = plan_frame(frame)
    while called.parent is not None:
        caller = called.parent
        error = StepError(
            message=reason, exit_code=STEP_FAILED, context={"stack": plan_stack(called)}
        )
        failed = StepResult(status="failed", exit_code=STEP_FAILED, error=error)
        caller.steps[called.owner] = caller.steps[called.owner] | failed
        called = plan_frame(caller)


def move_of(moves: ItemMoves | None, label: Label) -> Any:
    if moves is None:
        return None
    return moves.failure if label == FAILED else moves.success


def value_of_call(
    index: Index, call: Call, called: Frame, reason: str, status: str
) -> dict[str, Any]:
    """A recipe gives a recipe its final context (B), and its outputs where it declares some."""
    outputs = {} if called.outputs is None else {"outputs": called.outputs}
    if keeps_context(call, index.plan(called.plan)):
        return called.variables | outputs
    return {"status": status, "reason": reason, "outputs": {}} | outputs


def with_outcome(node: Node, label: Label, result: StepResult) -> StepResult:
    """What never came to an exit code has an outcome, too, where exit codes have one; and so has a
    call that never began, with the reason of it."""
    match node.op:
        case Run(exits=exits) if exits and label == FAILED:
            has_failed = any(outcome == "failed" for outcome, _ in node.routes)
            return result | StepResult(outcome="failed" if has_failed else dict(exits)["*"])
        case Call(outcomes=outcomes) if label == FAILED and result.message:
            told = StepResult(outcome="failed") if outcomes else StepResult()
            return result | told | StepResult(reason=result.message)
    return result


def nothing_runs(index: Index, state: RunState) -> None:
    """The run has stopped: a step that is not over waits to be started again."""
    for frame in frames_below(state.root):
        if frame.here is None:
            continue
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        if result is not None and result.status == "running":
            frame.steps[name] = result | StepResult(status="pending")
    end_calls(state)
