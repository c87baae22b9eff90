"""What the rounds and checks of a step say of it: others read what the step came to."""

from __future__ import annotations

from orchestrate.plan.ends import CHECK_FAILED
from orchestrate.plan.nodes import (
    FAILED,
    INVALID,
    Ask,
    Goto,
    Label,
    Node,
    NodeId,
    Run,
    Target,
    target_of,
)
from orchestrate.regex import regex
from orchestrate.state.model import Frame, Index, plan_frame
from orchestrate.state.result import StepResult

# As `dialects/checks.py` names them; a check of one outcome among several ends in it.
_PART = regex(r"(.+):(check|round)-[1-9][0-9]*(?::.+)?\Z")
_ANSWER = (
    "output", "output_capture", "lines", "json", "truncated", "response_length", "outcome",
    "outcome_description",
)  # fmt: skip


def step_of_part(name: str) -> tuple[str, str]:
    """The step that a check or a round is of, and which of the two it is; of a step itself ''."""
    match = _PART.match(name)
    return (name, "") if match is None else (match[1], match[2])


def tell_step(index: Index, frame: Frame, node: Node, label: Label, result: StepResult) -> None:
    """The step has the last answer; it has failed when a part of it leads no further."""
    if node.part_of is None:
        return
    step = index.place(frame.plan, node.part_of).node
    so_far = frame.steps[step.name]
    if label in (FAILED, INVALID):
        if _is_part_of(index, frame, step.id, target_of(node, label)):
            return
        failed = result.only("exit_code", "error") | StepResult(status="failed")
        if isinstance(node.op, Run) and isinstance(step.op, Ask) and step.op.outcomes:
            failed |= StepResult(outcome=CHECK_FAILED)
        frame.steps[step.name] = so_far | failed
        return
    if isinstance(node.op, Ask):
        so_far = so_far.without(*_ANSWER) | result.only(*_ANSWER)
    elif so_far.outcome == CHECK_FAILED:
        # It failed in an earlier sitting, and holds now.
        so_far |= StepResult(outcome=_checked_outcome(index, frame, node))
    frame.steps[step.name] = so_far.without("error") | StepResult(status="completed", exit_code=0)


def _checked_outcome(index: Index, frame: Frame, check: Node) -> Label:
    """The outcome that leads to a check."""
    nodes = index.block(frame.plan, frame.block).nodes
    return next(
        label
        for node in nodes
        for label, target in node.routes
        if target == Goto(check.id) and isinstance(node.op, Ask)
    )


def forget_value(index: Index, frame: Frame, node: Node, target: Target) -> None:
    """What a step answered that has failed its check is not a result (rulings §8)."""
    assert node.part_of is not None
    output = index.place(frame.plan, node.part_of).node.output
    if output is not None and not _is_part_of(index, frame, node.part_of, target):
        plan_frame(frame).variables.pop(output, None)


def _is_part_of(index: Index, frame: Frame, step: NodeId, target: Target) -> bool:
    return isinstance(target, Goto) and index.place(frame.plan, target.node).node.part_of == step
