"""What a run's own copy of its definition says about a step: is there one, what does it await."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.errors import StateError
from orchestrate.state.address import Address

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


def knows_step(run: Run, path: str) -> bool:
    """May there be a step of that name, or at that place in a loop, later in the run?"""
    try:
        name = Address.parse(path).name
    except ValueError:
        return False
    return any(True for _ in steps_called(run, name.rpartition(".")[2]))


def authored_steps(run: Run) -> list[str]:
    """The names of the steps that the main definition has outside loops, in its order."""
    document: dict[str, Any] = next(iter(_definitions(run).values()), {})
    steps = document.get("steps")
    if isinstance(steps, dict):
        return list(steps)
    found = [steps, *(stage.get("steps") for stage in document.get("stages") or ())]
    listed = [step for part in found if isinstance(part, list) for step in part]
    return [str(step.get("name") or step.get("id")) for step in listed]


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
    from orchestrate.state.durable import parse_json, read_file

    try:
        found: dict[str, Any] = parse_json(read_file(run.root / "definition.json") or b"{}")
    except (ValueError, StateError):
        return {}
    return found
