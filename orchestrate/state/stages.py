"""How far each stage of a recipe is, derived from the results of its steps."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.nodes import Gate
from orchestrate.state.model import Frame, Index, RunState
from orchestrate.state.result import StepResult

_NOT_BEGUN = StepResult(status="pending")


def stages_of(index: Index, state: RunState) -> list[dict[str, Any]]:
    """How far each stage is; a flat recipe has none."""
    plan = index.plan(state.root.plan)
    stages: dict[str, list[StepResult]] = {}
    for node in plan.blocks[0].nodes:
        if node.stage is not None:
            steps = stages.setdefault(node.stage, [])
            is_gate = isinstance(node.op, Gate) and not node.op.is_step
            if not is_gate and node.part_of is None:
                steps.append(_step_summary(state.root, node.id, node.name))
    asking = state.root.here is not None and state.root.here.phase == "asking"
    pending = index.here(state.root).node.stage if asking else None
    return [_stage(name, steps, name == pending) for name, steps in stages.items()]


def _step_summary(root: Frame, node_id: str, name: str) -> StepResult:
    loop = root.loops.get(node_id)
    if loop is not None:
        stopped = root.here is not None and root.here.node == node_id and root.here.phase
        if stopped == "failed":
            return StepResult(status="failed")
        return StepResult(status="completed" if loop.is_closed else "running")
    return root.steps.get(name, _NOT_BEGUN)


def _stage(name: str, steps: list[StepResult], is_pending: bool) -> dict[str, Any]:
    statuses = {step.status for step in steps}
    status = "running"
    if is_pending:
        status = "paused"
    elif "failed" in statuses and not statuses & {"pending", "running"}:
        status = "failed"
    elif statuses == {"pending"}:
        status = "pending"
    elif statuses == {"skipped"}:
        status = "skipped"
    elif statuses <= {"completed", "skipped", "failed"}:
        status = "completed"
    stage: dict[str, Any] = {"name": name, "status": status}
    began = [step.started_at for step in steps if step.started_at]
    ended = [step.completed_at for step in steps if step.completed_at]
    if began:
        stage["started_at"] = min(began)
    if ended and status in ("completed", "failed", "paused"):
        stage["completed_at"] = max(ended)
    return stage
