"""Loops of a workflow as they were written: which step is one, and what lies in it."""

from __future__ import annotations

from typing import Any

from orchestrate.source.located import LocatedMap


def loop_of(step: LocatedMap) -> Any:
    """What a step says under `for_each` or `repeat`; None if it is not a loop."""
    return step.get("for_each", step.get("repeat"))


def loops_around(steps: Any, name: str) -> tuple[str, ...]:
    """The loops that a step is in, the outermost first; empty for a step in none."""
    for step in steps or ():
        loop = loop_of(step)
        if isinstance(loop, LocatedMap):
            inner = loop.get("steps") or ()
            within = loops_around(inner, name)
            if within or any(one.get("name") == name for one in inner):
                return (str(step.get("name", "?")), *within)
    return ()


def loop_of_variable(steps: Any, variable: str) -> str:
    """The loop that calls its items so, wherever it is; '' when there is none."""
    for step in steps or ():
        loop = loop_of(step)
        if isinstance(loop, LocatedMap):
            if loop.get("as") == variable:
                return str(step.get("name", "?"))
            inner = loop_of_variable(loop.get("steps"), variable)
            if inner:
                return inner
    return ""
