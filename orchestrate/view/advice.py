"""What to look at, and how to go on, when a run has stopped: the same in `run` and in `status`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.state.plan_file import is_plan_whole
from orchestrate.state.result import Results, StepResult
from orchestrate.view.source_files import changed_files
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.exits import Ending
    from orchestrate.state.model import Index, RunState
    from orchestrate.view.run_view import RunView

# A variable that stands alone, as it is written in a workflow or a recipe.
_VARIABLE = re.compile(r"\$\{context\.([A-Za-z_][\w-]*)\}\Z|\{\{\s*([A-Za-z_][\w-]*)\s*\}\}\Z")


@record
class Reached:
    """What a machine has counted towards its guardrails, of visits those of the step it is at."""

    visits: int
    steps: int
    restarts: int

    @classmethod
    def of(cls, state: RunState) -> Reached:
        here = state.root.here
        visits = 0 if here is None else state.root.visits.get(here.node, 0)
        return cls(visits, state.steps_run, state.restarts)


def resume_flags(ending: Ending, reached: Reached) -> tuple[str, ...] | None:
    """What `resume` needs besides the run; None if it would fail again at once.

    A guardrail of a machine holds for its resumes, too, until a flag widens it; twice as much is
    room for as many rounds again. Those of a recipe stand in the recipe alone.
    """
    match ending.kind:
        case "guardrail-visits":
            return "--max-visits", str(_more_than(reached.visits))
        case "guardrail-steps":
            return "--max-steps", str(_more_than(reached.steps))
        case "guardrail-restarts":
            return "--max-restarts", str(_more_than(reached.restarts))
        case "limit":
            return None
        case _:
            return ()


def as_started_flag(view: RunView) -> tuple[str, ...]:
    """`--as-started` where a file of the definition is not as it was: `resume` may be refused.

    Texts alone are compared, which is cheap; where only a comment has changed, it works as well.
    """
    workspace = open_workspace(view.document["engine"]["workspace"])
    try:
        is_changed = changed_files(view.document["sources"], workspace)
        return ("--as-started",) if is_changed and is_plan_whole(view.run) else ()
    except OrchestrateError:
        return ()


def _more_than(reached: int) -> int:
    return max(2 * reached, reached + 1)


def values_wanted(failed: Iterable[tuple[str, StepResult]]) -> tuple[str, ...]:
    """What gives values to the variables that steps failed for: their frames and results.

    Nothing from outside gets into a recipe that another one calls, or into a part of a value.
    """
    from orchestrate.state.address import Called, FrameKey

    names: list[str] = []
    for frame, result in failed:
        found = [_VARIABLE.match(text) for text in result.context.get("undefined_vars", ())]
        is_called = any(isinstance(part, Called) for part in FrameKey.parse(frame).parts)
        if not is_called:
            names += [match[1] or match[2] for match in found if match is not None]
    return tuple(word for name in dict.fromkeys(names) for word in ("--context", f"{name}=VALUE"))


def what_to_look_at(
    run_id: str, stopped: Iterable[str], results: Results, *, is_denied: bool
) -> tuple[str, ...] | None:
    """The words after `logs` that show why a run failed; a denial has no output.

    Where the run went on after failures, it stands at no step any more: then it is the first that
    failed. Failures in a loop, and guardrails, are found from the list of all steps.
    """
    if is_denied:
        return None
    for path in stopped:
        return run_id, path
    for name, result in results.items():
        if result.status == "failed":
            return run_id, name
    return (run_id,)


def failed_in(state: RunState, index: Index) -> list[tuple[str, StepResult]]:
    """The frames and results of the steps that have failed and stopped the run."""
    from orchestrate.state.model import frames_below

    return [
        (frame.key, frame.steps.get(index.here(frame).node.name, StepResult()))
        for frame in frames_below(state.root)
        if frame.here is not None and frame.here.phase == "failed"
    ]


def stopped_at(state: RunState, index: Index) -> list[str]:
    """The steps that have stopped the run."""
    from orchestrate.state.address import FrameKey
    from orchestrate.state.model import frames_below

    found = []
    for frame in frames_below(state.root):
        if frame.here is not None and frame.here.phase in ("failed", "lost"):
            name = index.here(frame).node.name
            found.append(FrameKey.parse(frame.key).step(name).shown)
    return found
