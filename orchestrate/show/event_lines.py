"""The lines that the screen shows for events: C's for workflows and recipes, A's for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from orchestrate.errors import completed
from orchestrate.plan.nodes import OK
from orchestrate.plan.visible import plural, visible
from orchestrate.show.changed_files import changed_words
from orchestrate.state import events as on
from orchestrate.state.address import name_of_node, shown_path
from orchestrate.state.denials import denial_words
from orchestrate.state.events import Event
from orchestrate.state.model import Index, RunState
from orchestrate.state.result import StepResult
from orchestrate.state.times import duration
from orchestrate.view.event_words import (
    outcome_words,
    restart_words,
    retry_words,
    visit_words,
    wait_words,
)
from orchestrate.view.giving_up import NEVER_PLAIN

if TYPE_CHECKING:
    from orchestrate.view.display_options import DisplayOptions

Json = dict[str, Any]


class Labels(Protocol):
    """How steps are called for people."""

    def label(self, frame_key: str, node: str) -> str: ...


class Unnumbered:
    """Steps of a plan that is not known."""

    def label(self, frame_key: str, node: str) -> str:
        return visible(shown_path(frame_key, node))


def plain_lines(event: Event, progress: Labels, item: str = "") -> list[str]:
    """`item`: what the item is called whose step it is."""
    named = f" ({item})" if item else ""
    match event:
        case on.StepStarted():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return [f"{progress.label(event.frame, event.node)}{named}: Running{again}..."]
        case on.StepFinished():
            return _finished(event, progress, named)
        case on.AttemptEnded():
            return [_attempt_ended(event, progress, named), *_denied(event.result)]
        case on.LoopOpened():
            count = _items(len(event.items))
            if event.most is not None:
                count = f"at most {plural(event.most, 'round')}"
            return [f"{progress.label(event.frame, event.node)}: {count}"]
        case on.RoundEnded() | on.OutputsGiven() | on.ItemsMerged():
            return _lacking(event)
        case on.CallOpened():
            label = f"{progress.label(event.frame, event.node)}{named}"
            return [f"{label}: calls {visible(event.plan)}"]
        case on.CallExpired():
            label = progress.label(event.frame, event.node)
            return [f"{label}: timed out after {event.timeout_s:g} s; what it calls is given up"]
        case on.GateOpened():
            who = f"stage '{visible(event.stage)}'"
            if name_of_node(event.node) == event.stage:  # a gate that is a step
                who = f"{progress.label(event.frame, event.node)}:"
            return [] if event.reused else [f"{who} waits for an approval"]
        case on.GateDecided():
            return [f"the gate was {event.decision} by {visible(event.by)}"]
        case on.ItemMoved():
            return [_moved(event.lifecycle)]
        case (
            on.RunStarted() | on.RunResumed() | on.RunEnded() | on.Restarted() | on.Gap()
            | on.ItemMoving() | on.ItemStopped() | on.SessionSeen() | on.SessionChosen()
            | on.Edited() | on.CostReserved() | on.Checkpointed()
        ):  # fmt: skip
            return []
        case on.LimitNear() | on.CallWaits():
            return [_put_off(event, progress)]


def _put_off(event: on.LimitNear | on.CallWaits, progress: Labels) -> str:
    if isinstance(event, on.LimitNear):
        return f"warning: {visible(event.words)}"
    return f"{progress.label(event.frame, event.node)}: {visible(wait_words(event))}"


def _lacking(event: on.OutputsGiven | on.RoundEnded | on.ItemsMerged) -> list[str]:
    match event:
        case on.RoundEnded():
            return [visible(event.error)] if event.error else []
        case on.ItemsMerged():
            files = ", ".join(map(visible, event.conflicts))
            where = visible(shown_path(event.frame, event.node))
            return [f"{where}: conflicting changes of {files}"] if files else []
        case on.OutputsGiven():
            lacking = event.undefined.items()
            return [
                f"output '{visible(name)}' has no value: {visible(why)}" for name, why in lacking
            ]


def stays(event: Event) -> bool:
    """Is it worth a line beside the live view? Trouble is, and what a person has decided."""
    match event:
        case on.StepFinished():
            result = event.result
            if result.reused:
                return False
            return result.status == "failed" or lacks_lines(result) or bool(result.denials)
        case on.RoundEnded():
            return bool(event.error)
        case on.ItemsMerged():
            return bool(event.conflicts)
        case on.OutputsGiven():
            return bool(event.undefined)
        case on.ItemMoved():
            return bool(event.lifecycle["error"])
        case on.AttemptEnded() | on.GateDecided() | on.CallExpired() | on.LimitNear():
            return True
        case (
            on.StepStarted() | on.LoopOpened() | on.CallOpened() | on.GateOpened() | on.ItemMoving()
        ):
            return False
        case on.ItemStopped() | on.SessionSeen() | on.SessionChosen() | on.Restarted():
            return False
        case on.CostReserved() | on.CallWaits():
            return False
        case on.RunStarted() | on.RunResumed() | on.Edited() | on.RunEnded() | on.Gap():
            return False
        case on.Checkpointed():
            return False


# Said loudly: a loop over them would pass for complete.
LACKS_LINES = (
    "warning: only the first 10,000 lines are kept; a loop over them does not see the others"
)


def lacks_lines(result: StepResult) -> bool:
    """Was there more output than C keeps as `lines`?"""
    return result.output_capture == "lines" and result.truncated


def _items(number: int) -> str:
    return f"{number} item" if number == 1 else f"{number} items"


def _reused_of(result: StepResult) -> str:
    """`in run X (3s), saves $0.0100`."""
    of = "before" if result.from_run is None else f"in run {result.from_run}"
    cost = "" if result.cost_usd is None else f", saves ${result.cost_usd:.4f}"
    return f"{of} ({duration(result.duration_ms)}){cost}"


def _finished(event: on.StepFinished, progress: Labels, named: str) -> list[str]:
    label = progress.label(event.frame, event.node) + named
    result = event.result
    if result.status == "skipped":
        return [f"{label}: skipped ({visible(result.reason)})"]
    took = f" ({duration(result.duration_ms)})"
    if result.reused:
        return [f"{label}: reused, {result.status} {_reused_of(result)}"]
    if result.status == "completed":
        lacks = [f"    {LACKS_LINES}"] if lacks_lines(result) else []
        files = changed_words(result.changed)
        more = f", {files}" if files else ""
        return [f"{label}: {_success_words(result)}{took}{more}", *lacks, *_denied(result)]
    lines = [f"{label}: failed with exit code {result.exit_code}{took}"]
    lines.append(f"    {visible(result.message)}")
    printed = () if result.error is None else result.error.stderr_tail
    lines += [f"    | {visible(line)}" for line in printed[-3:]]
    return [*lines, *_denied(result)]


def _success_words(result: StepResult) -> str:
    """`completed`, or what a called machine's step gave up with."""
    if result.outcome not in NEVER_PLAIN:
        return "completed"
    why = f", {result.outcome_description}" if result.outcome_description else ""
    return visible(f"{result.outcome}{why}")


def _denied(result: StepResult) -> list[str]:
    words = denial_words(result.denials)
    return [f"    warning: {visible(words)}"] if words else []


def _attempt_ended(event: on.AttemptEnded, progress: Labels, named: str) -> str:
    label = progress.label(event.frame, event.node) + named
    message = visible(event.result.message)
    match event.why:
        case "failed":
            return f"{label}: attempt {event.attempt} failed ({message}); {retry_words(event)}"
        case "lost" | "quota" if event.waits:
            return f"{label}: {message}"
        case "lost":
            return f"{label}: {message}; {_next_words(event)}"
        case "stopped" | "void":
            return f"{label}: {message}"
        case "reminded":
            return f"{label}: no readable outcome ({message}); asking again"
        case "no-session":
            return f"{label}: {message}; beginning a new session"
        case "budget":
            return f"{label}: {message}; it goes on in its session if there is more"
        case "quota":
            return f"{label}: {message}; {wait_words(event)}"


def _next_words(event: on.AttemptEnded) -> str:
    after = f" in {event.rest_s:g} s" if event.rest_s else ""
    return f"starting attempt {event.attempt + 1}{after}"


def _moved(lifecycle: dict[str, Any]) -> str:
    if lifecycle["error"]:
        return f"    {visible(str(lifecycle['from']))} not moved: {visible(lifecycle['error'])}"
    return f"    {visible(str(lifecycle['from']))} → {visible(str(lifecycle['to']))}"


# Machines: what `--verbose` tells (A §9).


def machine_lines(
    event: Event, messages: list[Json], state: RunState, index: Index, display: DisplayOptions
) -> list[str]:
    """The verbose lines, by the messages that the event stands for; without --verbose only what a
    person must know."""
    denials, troubles = [], []
    if isinstance(event, on.StepFinished | on.AttemptEnded) and not event.result.reused:
        denied = denial_words(event.result.denials)
        path = visible(shown_path(event.frame, event.node))
        denials = [f"Step {path}: {visible(denied)}"] if denied else []
        troubles = _machine_troubles(event)
    elif isinstance(event, on.OutputsGiven | on.ItemsMerged):
        troubles = _lacking(event)
    elif isinstance(event, on.LimitNear):
        troubles = [f"Warning: {visible(event.words)}"]
    elif isinstance(event, on.CallWaits):
        troubles = [f"Step {visible(event.node)} {visible(wait_words(event))}"]
    lines = troubles
    if display.verbose and not troubles:
        is_inner = on.is_in_call(event)
        lines = (
            _called_course(event) if is_inner else _machine_course(event, messages, state, index)
        )
    elif isinstance(event, on.StepFinished) and not troubles:
        lines = _machine_command(event)
    return [f"[orchestration] {line}" for line in (*denials, *lines)]


def _machine_command(event: on.StepFinished) -> list[str]:
    """A command, or a check, that has ended as its author foresaw; an agent shows its answer."""
    result = event.result
    if result.is_turn or (result.status != "completed" and not _is_foreseen(result)):
        return []
    took = "reused" if result.reused else duration(result.duration_ms)
    return [f"Step {machine_step(event)}: {visible(result.outcome or 'passed')} ({took})"]


def _is_foreseen(result: StepResult) -> bool:
    """Has the author a name of their own for how the command has ended (`exits`)?"""
    return result.outcome not in (None, "failed") and not result.is_turn


def _machine_troubles(event: on.StepFinished | on.AttemptEnded) -> list[str]:
    step, message = machine_step(event), visible(event.result.message)
    if isinstance(event, on.StepFinished):
        is_failure = event.result.status == "failed" and not _is_foreseen(event.result)
        return [f"Step {step} failed: {message}"] if is_failure else []
    if event.why == "reminded":
        return []
    then = "; beginning a new session" if event.why == "no-session" else ""
    then = f"; {retry_words(event)}" if event.why == "failed" else then
    then = f"; {wait_words(event)}" if event.why == "quota" and not event.waits else then
    if event.why == "lost":
        # The message counts the attempt itself.
        return [f"Step {step}: {message}{'' if event.waits else f'; {_next_words(event)}'}"]
    return [f"Step {step}, attempt {event.attempt}: {message}{then}"]


def machine_step(event: on.StepFinished | on.AttemptEnded) -> str:
    """The machine's own step by its name, one of a plan that it calls by its path."""
    path = shown_path(event.frame, event.node) if on.is_in_call(event) else event.node
    return visible(path)


def _called_course(event: Event) -> list[str]:
    """A step of what a machine calls."""
    if isinstance(event, on.StepStarted) and event.attempt == 1:
        return [f"Step: {visible(shown_path(event.frame, event.node))}"]
    if isinstance(event, on.StepFinished):
        path = visible(shown_path(event.frame, event.node))
        return [f"Step {path} {event.result.status}"]
    return []


def _machine_course(event: Event, messages: list[Json], state: RunState, index: Index) -> list[str]:
    match event:
        case on.StepStarted():
            return [*_entered(event, messages, state, index), _begun(event)]
        case on.GateOpened() | on.CallOpened():
            return _entered(event, messages, state, index)
        case on.AttemptEnded():
            asked = "Outcome not readable, sending a reminder"
            return [f"{asked}: {visible(str(one['error']))}" for one in messages]
        case on.StepFinished():
            if event.result.reused:
                of = _reused_of(event.result)
                return [f"Step: {visible(event.node)} reused: {outcome_words(event)} {of}"]
            found = [] if event.label == OK else [f"Outcome extracted: {outcome_words(event)}"]
            restarted = restart_words(event, state, index)
            return [*found, *([f"Transition: {restarted}"] if restarted else [])]
        case on.Restarted():
            return [f"Restart {state.restarts}: a new session"]
        case on.RunEnded():
            # A run that waits for a person has not left its session.
            word = "Exit" if messages else "Parked"
            return [f"{word}: {visible(event.reason)}{denied_more(state)}"]
        case on.RunStarted() | on.RunResumed() | on.SessionSeen() | on.SessionChosen() | on.Gap():
            return []
        case on.LoopOpened() | on.ItemMoving() | on.ItemMoved() | on.ItemStopped() | on.Edited():
            return []
        case (
            on.OutputsGiven()
            | on.ItemsMerged()
            | on.RoundEnded()
            | on.CallExpired()
            | on.GateDecided()
            | on.Checkpointed()
        ):
            return []
        case on.CostReserved() | on.LimitNear() | on.CallWaits():
            return []


def denied_more(state: RunState) -> str:
    """What an exit line adds when tools were refused: the run may have done nothing."""
    denied = denial_words(state.denials)
    if not denied:
        return ""
    return f" ({visible(denied)}; see {completed(f'orchestrate status {state.run_id}')})"


def _entered(
    event: on.StepStarted | on.GateOpened | on.CallOpened,
    messages: list[Json],
    state: RunState,
    index: Index,
) -> list[str]:
    """A check and a round have no messages, but a line."""
    calls = f" calls {visible(event.plan)}" if isinstance(event, on.CallOpened) else ""
    lines, is_told = [], isinstance(event, on.StepStarted) and event.attempt > 1
    for message in messages:
        match message:
            case {"type": "recipe_step_transition", "from_step": before, "to_step": step}:
                lines.append(f"Transition: {visible(str(before))} → {visible(str(step))}")
            case {"type": "recipe_step_started", "step": step, "step_count": count}:
                name = index.plan(state.root.plan).name
                lines += [f"Starting recipe: {visible(name)}"] * (count == 1)
                lines.append(
                    f"Step: {visible(str(step))}{calls} {visit_words(event, state, index)}"
                )
                is_told = True
            case _:
                pass
    words = f"Step: {visible(event.node)}{calls} {visit_words(event, state, index)}"
    return lines if is_told else [*lines, words]


def _begun(event: on.StepStarted) -> str:
    about = event.about
    if about.agent is None:
        return f"Running {visible(' '.join(about.debug.command) if about.debug else '')}"
    model = "" if about.model is None else f" [{visible(about.model)}]"
    return f"Sending prompt ({about.prompt_length} chars) to {visible(about.agent)}{model}"
