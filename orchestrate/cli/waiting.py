"""What a run's own copy of its definition says about a step: is there one, what does it await."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from orchestrate.errors import StateError

if TYPE_CHECKING:
    from orchestrate.cli.cursors import Cursor
    from orchestrate.state.runs import Run


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
    name = path.rpartition("/")[2].rpartition(".")[2]
    return any(True for _ in steps_called(run, name))


def steps_called(run: Run, name: str) -> Iterator[dict[str, Any]]:
    """The steps of that name in the frozen definitions, at whatever depth of loops."""
    from orchestrate.state.durable import parse_json, read_file

    try:
        content = read_file(run.root / "definition.json")
        documents = parse_json(content or b"{}")
    except (ValueError, StateError):
        return
    waiting: list[Any] = []
    for document in documents.values():
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
