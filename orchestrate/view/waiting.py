"""What a run's own copy of its definition says about a step: is there one, what does it await."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.state.address import Address
from orchestrate.state.model import Index, RunState
from orchestrate.state.plan_file import read_documents

if TYPE_CHECKING:
    from orchestrate.state.runs import Run
    from orchestrate.view.cursors import Cursor


def awaited(run: Run, at: Cursor) -> dict[str, Any]:
    """The pattern as the author wrote it, and the time limit; nothing for other steps."""
    for step in steps_called(run, at.name):
        wait = step.get("wait_for")
        if isinstance(wait, dict) and "glob" in wait:
            limit = {"at_most_s": wait["timeout_sec"]} if "timeout_sec" in wait else {}
            return {"waits_for": wait["glob"], **limit}
    return {}


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


def steps_called(run: Run, name: str) -> Iterator[dict[str, Any]]:
    """The steps of that name in the frozen definitions, at whatever depth of loops."""
    waiting: list[Any] = []
    for document in read_documents(run.root).values():
        waiting += [stage.get("steps") for stage in _mappings(document.get("stages"))]
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
            for loop in (step.get("for_each"), step.get("repeat")):
                if isinstance(loop, dict):
                    waiting.append(loop.get("steps"))


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings in a list; a copy that was damaged may hold anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
