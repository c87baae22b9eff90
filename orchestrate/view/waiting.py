"""What a run's own copy of its definition says about a step: is there one, what does it await."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.errors import StateError
from orchestrate.plan.nodes import Gate
from orchestrate.state.address import Address
from orchestrate.state.durable import parse_json, read_file
from orchestrate.state.model import Index, RunState

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
    return [node.name for node in nodes if not isinstance(node.op, Gate)]


def steps_called(run: Run, name: str) -> Iterator[dict[str, Any]]:
    """The steps of that name in the frozen definitions, at whatever depth of loops."""
    waiting: list[Any] = []
    for document in _definitions(run).values():
        waiting += [stage.get("steps") for stage in document.get("stages") or ()]
        steps = document.get("steps")
        if isinstance(steps, dict):
            yield from (step for key, step in steps.items() if key == name)
        else:
            waiting.append(steps)
    while waiting:
        steps = waiting.pop()
        for step in steps if isinstance(steps, list) else ():
            if name in (step.get("name"), step.get("id")):
                yield step
            loop = step.get("for_each")
            if isinstance(loop, dict):
                waiting.append(loop.get("steps"))


def _definitions(run: Run) -> dict[str, Any]:
    """The run's copies of its definitions by name, the main one first; none if they are gone."""
    try:
        found: dict[str, Any] = parse_json(read_file(run.root / "definition.json") or b"{}")
    except (ValueError, StateError):
        return {}
    return found
