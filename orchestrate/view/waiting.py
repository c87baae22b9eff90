"""What a run's own copy of its definition says about a step: is there one, what does it await."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.plan.nodes import Call, nodes_in
from orchestrate.state.address import Address, Called, FrameKey
from orchestrate.state.model import Index, RunState
from orchestrate.state.plan_file import edit_folder, read_documents

if TYPE_CHECKING:
    from orchestrate.plan.nodes import PlanId
    from orchestrate.state.runs import Run
    from orchestrate.view.cursors import Cursor


def awaited(run: Run, index: Index | None, at: Cursor) -> dict[str, Any]:
    """The pattern as the author wrote it, and the time limit; nothing for other steps."""
    step = written_step(run, index, FrameKey.parse(at.frame).step(at.name))
    wait = None if step is None else step.get("wait_for")
    if not isinstance(wait, dict) or "glob" not in wait:
        return {}
    limit = {"at_most_s": wait["timeout_sec"]} if "timeout_sec" in wait else {}
    return {"waits_for": wait["glob"], **limit}


def knows_step(index: Index, path: str) -> bool:
    """May there be a step of that name, or at that place in a loop, later in the run?"""
    try:
        name = Address.parse(path).name.rpartition(".")[2]
    except ValueError:
        return False
    blocks = (block for plan in index.program.plans for block in plan.blocks)
    return any(node.name == name for block in blocks for node in block.nodes)


def steps_of_plan(index: Index, state: RunState) -> list[str]:
    """The names of the steps that the plan has outside loops, in its order."""
    nodes = index.plan(state.root.plan).blocks[0].nodes
    return [node.name for node in nodes if node.is_step]


def written_step(run: Run, index: Index | None, at: Address) -> dict[str, Any] | None:
    """A step as its own file has it: a file that is called may have one of the same name."""
    documents = read_documents(edit_folder(run.root, at.frame.edit))
    plan = None if index is None else _plan_of(index, at.frame)
    searched = [documents[plan]] if plan in documents else documents.values()
    return next((step for one in searched for step in _steps_in(one, at.name)), None)


def _plan_of(index: Index, frame: FrameKey) -> PlanId | None:
    """The plan that a frame belongs to; None where only the run itself knew it."""
    plan = None if frame.restart else index.program.main
    for part in frame.parts:
        if plan is None or not isinstance(part, Called):
            continue
        nodes = nodes_in(index.plan(plan))
        ops = [node.op for node in nodes if node.name == part.step]
        called = {op.plan for op in ops if isinstance(op, Call) and isinstance(op.plan, str)}
        plan = called.pop() if len(called) == 1 else None
    return plan


def _steps_in(document: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The steps of that name, at whatever depth of loops."""
    waiting = [stage.get("steps") for stage in _mappings(document.get("stages"))]
    steps = document.get("steps")
    if isinstance(steps, dict):
        yield from _mappings([step for key, step in steps.items() if key == name])
    else:
        waiting.append(steps)
    while waiting:
        steps = waiting.pop()
        for step in _mappings(steps):
            if name in (step.get("name"), step.get("id")):
                yield step
            waiting.append(step.get("while_steps"))
            loops = _mappings([step.get("for_each"), step.get("repeat")])
            waiting.extend(loop.get("steps") for loop in loops)


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings in a list; a copy that was damaged may hold anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
