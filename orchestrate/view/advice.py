"""What to look at, and how to go on, when a run has stopped: the same in `run` and in `status`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.state.address import Called, FrameKey
from orchestrate.state.cancelling import is_cancelling
from orchestrate.state.plan_file import is_plan_whole
from orchestrate.state.result import Results, StepResult
from orchestrate.view.cursors import cursors_in
from orchestrate.view.place import Place
from orchestrate.view.run_summary import FINAL
from orchestrate.view.source_files import changed_files
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.exits import Ending
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
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


def as_started_flag(run: Run, state: RunState) -> tuple[str, ...]:
    """`--as-started` where a file of the definition is not as it was: `resume` may be refused.

    Texts alone are compared, which is cheap; where only a comment has changed, it works as well.
    """
    workspace = open_workspace(state.workspace)
    try:
        is_changed = changed_files(state.sources, workspace)
        return ("--as-started",) if is_changed and is_plan_whole(run) else ()
    except OrchestrateError:
        return ()


def _more_than(reached: int) -> int:
    return max(2 * reached, reached + 1)


def values_wanted(failed: Iterable[tuple[str, StepResult]]) -> tuple[str, ...]:
    """What gives values to the variables that steps failed for: their frames and results.

    Nothing from outside gets into a recipe that another one calls, or into a part of a value.
    """
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


def look_command(view: RunView, place: Place) -> str | None:
    """The command that shows what the step printed that has stopped the run."""
    stopped = [at.path for at in view.cursors if at.phase in ("failed", "lost")]
    if view.status != "failed" and not (view.status == "paused" and stopped):
        return None
    root = view.state.root
    reached = {node: number for number, node in enumerate(root.visits)}
    steps = dict(sorted(root.steps.items(), key=lambda step: reached.get(step[0], -1)))
    look = what_to_look_at(view.run.id, stopped, steps, is_denied=view.is_denied)
    return None if look is None else place.command("logs", *look)


def next_commands(view: RunView, place: Place) -> list[str]:
    """The commands with which a person can go on."""
    run_id = view.run.id
    if view.status in FINAL or is_cancelling(view.run):
        return []
    gates = view.waiting_gates
    if view.is_live and not gates:
        return []
    if gates:
        # One that waits needs no name.
        names = [gate.stage for gate in gates] if len(gates) > 1 else [None]
        return [
            place.command(verb, run_id, *filter(None, [name]))
            for name in dict.fromkeys(names)
            for verb in ("approve", "deny")
        ]
    if view.status != "failed":
        return [place.command("resume", run_id, *as_started_flag(view.run, view.state))]
    flags = () if view.ending is None else resume_flags(view.ending, Reached.of(view.state))
    if view.is_denied or view.is_at_end or flags is None:
        return []
    more = (*values_wanted(failed_in(view.state)), *as_started_flag(view.run, view.state))
    return [place.command("resume", run_id, *flags, *more)]


def failed_in(state: RunState) -> list[tuple[str, StepResult]]:
    """The frames and results of the steps that have failed and stopped the run."""
    return [(at.frame, at.result) for at in cursors_in(state) if at.phase == "failed"]


def stopped_at(state: RunState) -> list[str]:
    """The steps that have stopped the run."""
    return [at.path for at in cursors_in(state) if at.phase in ("failed", "lost")]
