"""What to look at, and how to go on, when a run has stopped: the same in `run` and in `status`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.state.address import Called, FrameKey
from orchestrate.state.budget import OF_USER, counted_for
from orchestrate.state.cancelling import is_cancelling
from orchestrate.state.gates import gate_names
from orchestrate.state.model import frames_below
from orchestrate.state.plan_file import is_plan_whole
from orchestrate.state.result import StepResult
from orchestrate.state.rounds import step_of_part
from orchestrate.view.cursors import cursors_in, put_aside
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
_VARIABLE = regex(r"\$\{context\.([A-Za-z_][\w-]*)\}\Z|\{\{\s*([A-Za-z_][\w-]*)\s*\}\}\Z")


@record
class Reached:
    """What a run has counted towards its limits, of visits those of the steps it is at."""

    visits: int
    steps: int
    restarts: int
    calls: int
    cost: float
    tokens: int
    worked_s: float

    @classmethod
    def of(cls, state: RunState) -> Reached:
        frames = [(frame, frame.here) for frame in frames_below(state.root)]
        visits = max((f.visits.get(here.node, 0) for f, here in frames if here), default=0)
        # In rounds, which have no item, each is a visit.
        rounds = (f.index + 1 for f, _ in frames if f.index is not None and not f.variable)
        visits = max((visits, *rounds))
        usd, tokens = counted_for(state.costs)
        worked = state.worked.until(state.updated_at)
        return cls(visits, state.steps_run, state.restarts, state.calls, usd, tokens, worked)


def resume_flags(ending: Ending, reached: Reached) -> tuple[str, ...] | None:
    """What `resume` needs besides the run; None if it would fail again at once.

    A limit holds for resumes, too, until a flag widens it; twice as much is room for as much
    again. The depth of calls and the length of loops stand in the recipe alone.
    """
    match ending.kind:
        case "guardrail-visits":
            return "--max-visits", str(_more_than(reached.visits))
        case "guardrail-steps":
            wanted = max(_more_than(reached.steps), ending.budget.get("needed", 0))
            return "--max-steps", str(wanted)
        case "guardrail-restarts":
            return "--max-restarts", str(_more_than(reached.restarts))
        case "max-calls":
            return "--max-calls", str(_more_than(reached.calls))
        case "max-tokens":
            return "--max-tokens", str(ceil(_wanted(ending, reached.tokens, 1)))
        case "max-cost":
            return "--max-cost", f"{ceil(100 * _wanted(ending, reached.cost, 0.01)) / 100:.2f}"
        case "max-time":
            return "--max-time", f"{max(2 * reached.worked_s, 1):.0f}s"
        case "limit":
            return None
        case "no-progress":
            # Without a change of anything it would end once more before the next call.
            last = ending.budget.get("last")
            return None if last is None else ("--redo", str(last))
        case _:
            return ()


def as_started_flag(run: Run, state: RunState) -> tuple[str, ...]:
    """`--as-started` where a file of the definition is not as it was: `resume` may be refused.

    Texts alone are compared, which is cheap; where only a comment has changed, it works as well.
    Of a workspace that was moved nothing is said: `resume` knows where it is.
    """
    workspace = open_workspace(state.workspace)
    if not workspace.root.is_dir():
        return ()
    try:
        is_changed = changed_files(state.sources, workspace)
        return ("--as-started",) if is_changed and is_plan_whole(run) else ()
    except OrchestrateError:
        return ()


def view_flags(view: RunView) -> tuple[str, ...]:
    """What `resume` needs because of what became of the run's files and of its definition."""
    repair = ("--repair",) if view.is_torn else ()
    changed = as_started_flag(view.run, view.state)
    if changed and view.ending is not None and _is_of_file(view.ending):
        changed = ("--edited",)
    return (*repair, *changed)


def _is_of_file(ending: Ending) -> bool:
    """Has a limit parked the run that only an edit of the file can raise?"""
    limit = str(ending.budget.get("limit", ""))
    return ending.kind == "day-limit" and not limit.startswith(OF_USER)


def _wanted(ending: Ending, known: float, least: float) -> float:
    """Room for as much again, and at least for the call that did not fit."""
    told = ending.budget
    needed: float = (told.get("needed") or 0) + told.get("reserved", 0)
    spent: float = max(known, told.get("spent", 0))
    return max(2 * spent, spent + max(needed, least))


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


def behind_flags(state: RunState) -> tuple[str, ...]:
    """`--on-error continue` where a loop has no other item left than those that were put aside: as
    before, `resume` would only fail again."""
    loops = [loop for loop, _, _ in put_aside(state)]
    is_over = any(loop.is_spent and not loop.open for loop in loops)
    return ("--on-error", "continue") if is_over else ()


def what_to_look_at(
    run_id: str, stopped: Iterable[str], state: RunState, *, is_denied: bool
) -> tuple[str, ...] | None:
    """The words after `logs` that show why a run failed; a denial has no output.

    Where the run went on after failures, it stands at no step any more: then it is the one whose
    outcome its author calls a failure of the run, else the first that failed. Failures in a loop,
    and guardrails, are found from the list of all steps.
    """
    if is_denied:
        return None
    for path in stopped:
        return run_id, path
    reached = {node: number for number, node in enumerate(state.root.visits)}
    results = dict(sorted(state.root.steps.items(), key=lambda step: reached.get(step[0], -1)))
    failed = [name for name, result in results.items() if result.status == "failed"]
    if state.ending is not None and state.ending.kind == "exit-failed" and state.current in results:
        failed = [state.current]
    for name in failed:
        checks = [one for one in results if step_of_part(one) == (name, "check")]
        if checks and results[checks[-1]].status == "failed":
            return run_id, checks[-1]
        return run_id, _failed_within(name, results[name].steps)
    return (run_id,)


def _failed_within(path: str, steps: Mapping[str, Any]) -> str:
    """The path of the step that failed, in the files that a step has called: a call itself prints
    nothing. A loop may have been allowed to fail, so any other step comes first."""
    for name, result in steps.items():
        if isinstance(result, dict) and result.get("status") == "failed":
            return _failed_within(f"{path}/{name}", result.get("steps", {}))
    for name, items in steps.items():
        for number, item in enumerate(items if isinstance(items, list) else ()):
            place = f"{path}/{name}[{number}]"
            if "failed" not in [one.get("status") for one in item.values()]:
                continue
            if name not in item:
                return _failed_within(place, item)
            # A recipe's loop repeats one step, which has its name.
            below = item[name].get("steps", {})
            return _failed_within(f"{place}()", below) if below else place
    return path


def look_command(view: RunView, place: Place) -> str | None:
    """The command that shows what the step printed that has stopped the run."""
    stopped = [at.path for at in view.cursors if at.phase in ("failed", "lost")]
    if view.status != "failed" and not (view.status == "paused" and stopped):
        return None
    look = what_to_look_at(view.run.id, stopped, view.state, is_denied=view.is_denied)
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
        names = gate_names(gates) if len(gates) > 1 else [None]
        return [
            place.command(verb, run_id, *filter(None, [name]))
            for name in dict.fromkeys(names)
            for verb in ("approve", "deny")
        ]
    flags = () if view.ending is None else resume_flags(view.ending, Reached.of(view.state))
    if view.status != "failed":
        return [place.command("resume", run_id, *(flags or ()), *view_flags(view))]
    if view.is_denied or view.is_at_end or flags is None:
        return []
    more = (*values_wanted(failed_in(view.state)), *behind_flags(view.state), *view_flags(view))
    return [place.command("resume", run_id, *flags, *more)]


def start_over_command(view: RunView, place: Place) -> str | None:
    """The command that begins a run anew whose last gate was denied: nothing goes on with it."""
    approvals = view.state.approvals
    if view.status not in ("failed", "completed") or not approvals:
        return None
    is_denied = approvals[-1].status == "denied" or _ended_denied(view.state)
    return place.command("resume", view.run.id, "--force-restart") if is_denied else None


def _ended_denied(state: RunState) -> bool:
    return state.ending is not None and state.ending.kind == "denied"


def failed_in(state: RunState) -> list[tuple[str, StepResult]]:
    """The frames and results of the steps that have failed and stopped the run."""
    return [(at.frame, at.result) for at in cursors_in(state) if at.phase == "failed"]


def stopped_at(state: RunState) -> list[str]:
    """The steps that have stopped the run."""
    return [at.path for at in cursors_in(state) if at.phase in ("failed", "lost")]
