"""The words for events: C's lines for workflows and recipes, A's for machines and their log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from orchestrate.engine.logbook import Level
from orchestrate.plan.nodes import Abort, Finish, Goto, Leave, Restart, target_of
from orchestrate.plan.visible import visible
from orchestrate.state.address import shown_path
from orchestrate.state.denials import denial_words
from orchestrate.state.events import (
    AttemptEnded,
    CallExpired,
    CallOpened,
    Event,
    Gap,
    GateDecided,
    GateOpened,
    ItemMoved,
    ItemMoving,
    ItemStopped,
    LoopOpened,
    Restarted,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionChosen,
    SessionSeen,
    StepFinished,
    StepStarted,
)
from orchestrate.state.model import Index, RunState
from orchestrate.state.result import StepResult
from orchestrate.view.event_records import FIELDS

if TYPE_CHECKING:
    from orchestrate.view.watching import Watching


# More is not shown: a century.
_LONGEST_MS = 1000.0 * 36525 * 86400


class Labels(Protocol):
    """How steps are called for people."""

    def label(self, frame_key: str, node: str) -> str: ...


class Unnumbered:
    """Steps of a plan that is not known."""

    def label(self, frame_key: str, node: str) -> str:
        return visible(shown_path(frame_key, node))


def plain_lines(event: Event, progress: Labels) -> list[str]:
    match event:
        case StepStarted():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return [f"{progress.label(event.frame, event.node)}: Running{again}..."]
        case StepFinished():
            return _finished(event, progress)
        case AttemptEnded():
            return [_attempt_ended(event, progress), *_denied(event.result)]
        case LoopOpened():
            return [f"{progress.label(event.frame, event.node)}: {_items(len(event.items))}"]
        case CallOpened():
            return [f"{progress.label(event.frame, event.node)}: calls {visible(event.plan)}"]
        case CallExpired():
            label = progress.label(event.frame, event.node)
            return [f"{label}: timed out after {event.timeout_s:g} s; what it calls is given up"]
        case GateOpened():
            return [f"stage '{visible(event.stage)}' waits for an approval"]
        case GateDecided():
            return [f"the gate was {event.decision} by {visible(event.by)}"]
        case ItemMoved():
            return [_moved(event.lifecycle)]
        case RunStarted() | RunResumed() | RunEnded() | Restarted() | Gap():
            return []
        case ItemMoving() | ItemStopped() | SessionSeen() | SessionChosen():
            return []


def stays(event: Event) -> bool:
    """Is it worth a line beside the live view? Trouble is, and what a person has decided."""
    match event:
        case StepFinished():
            result = event.result
            return result.status == "failed" or lacks_lines(result) or bool(result.denials)
        case ItemMoved():
            return bool(event.lifecycle["error"])
        case AttemptEnded() | GateDecided() | CallExpired():
            return True
        case StepStarted() | LoopOpened() | CallOpened() | GateOpened() | ItemMoving():
            return False
        case ItemStopped() | SessionSeen() | SessionChosen() | Restarted():
            return False
        case RunStarted() | RunResumed() | RunEnded() | Gap():
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


def _finished(event: StepFinished, progress: Labels) -> list[str]:
    label = progress.label(event.frame, event.node)
    result = event.result
    if result.status == "skipped":
        return [f"{label}: skipped ({visible(result.reason)})"]
    took = f" ({duration(result.duration_ms)})"
    if result.status == "completed":
        lacks = [f"    {LACKS_LINES}"] if lacks_lines(result) else []
        return [f"{label}: completed{took}", *lacks, *_denied(result)]
    lines = [f"{label}: failed with exit code {result.exit_code}{took}"]
    lines.append(f"    {visible(result.message)}")
    printed = () if result.error is None else result.error.stderr_tail
    lines += [f"    | {visible(line)}" for line in printed[-3:]]
    return [*lines, *_denied(result)]


def _denied(result: StepResult) -> list[str]:
    words = denial_words(result.denials)
    return [f"    warning: {visible(words)}"] if words else []


def _attempt_ended(event: AttemptEnded, progress: Labels) -> str:
    label = progress.label(event.frame, event.node)
    message = visible(event.result.message)
    match event.why:
        case "failed":
            return f"{label}: attempt {event.attempt} failed ({message}); {retry_words(event)}"
        case "lost" if event.waits:
            return f"{label}: {message}"
        case "lost":
            after = f" in {event.rest_s:g} s" if event.rest_s else ""
            return f"{label}: {message}; starting attempt {event.attempt + 1}{after}"
        case "stopped" | "void":
            return f"{label}: {message}"
        case "reminded":
            return f"{label}: no readable outcome ({message}); asking again"
        case "no-session":
            return f"{label}: {message}; beginning a new session"


def retry_words(event: AttemptEnded) -> str:
    """When a failed attempt is repeated: `retry 2 of 5 in 4.0s: overloaded (529)`."""
    after = f"in {duration(event.rest_s * 1000)}" if event.rest_s else "now"
    return f"{retry_number(event.result)} {after}{retry_reason(event.result)}"


def retry_number(result: StepResult) -> str:
    retry = result.retry
    return "next one" if retry is None else f"retry {retry.number} of {retry.of}"


def retry_reason(result: StepResult) -> str:
    context = result.context
    status = f" ({context['http_status']})" if "http_status" in context else ""
    return f": {context['kind']}{status}" if "kind" in context else ""


def _moved(lifecycle: dict[str, Any]) -> str:
    if lifecycle["error"]:
        return f"    {visible(str(lifecycle['from']))} not moved: {visible(lifecycle['error'])}"
    return f"    {visible(str(lifecycle['from']))} → {visible(str(lifecycle['to']))}"


def duration(milliseconds: float) -> str:
    seconds = min(milliseconds, _LONGEST_MS) / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"


# Machines: what `--verbose` tells (A §9).


def machine_lines(event: Event, state: RunState, index: Index, watching: Watching) -> list[str]:
    """The verbose lines; without --verbose only what a person must know."""
    denials, troubles = [], []
    if isinstance(event, StepFinished | AttemptEnded):
        denied = denial_words(event.result.denials)
        denials = [f"Step {visible(event.node)}: {visible(denied)}"] if denied else []
        troubles = _machine_troubles(event)
    lines = troubles
    if watching.verbose and not troubles:
        lines = _machine_course(event, state, index)
    return [f"[orchestration] {line}" for line in (*denials, *lines)]


def _machine_troubles(event: StepFinished | AttemptEnded) -> list[str]:
    step, message = visible(event.node), visible(event.result.message)
    if isinstance(event, StepFinished):
        return [f"Step {step} failed: {message}"] if event.result.status == "failed" else []
    if event.why == "reminded":
        return []
    then = "; beginning a new session" if event.why == "no-session" else ""
    then = f"; {retry_words(event)}" if event.why == "failed" else then
    return [f"Step {step}, attempt {event.attempt}: {message}{then}"]


def _machine_course(event: Event, state: RunState, index: Index) -> list[str]:
    match event:
        case StepStarted():
            return _machine_start(event, state, index)
        case AttemptEnded():
            return [f"Outcome not readable, sending a reminder: {visible(event.result.message)}"]
        case StepFinished():
            return [f"Outcome extracted: {_outcome(event)}", *_transition(event, state, index)]
        case Restarted():
            return [f"Restart {state.restarts}: a new session"]
        case RunEnded():
            return [f"Exit: {visible(event.reason)}{denied_more(state)}"]
        case RunStarted() | RunResumed() | SessionSeen() | SessionChosen() | Gap():
            return []
        case LoopOpened() | ItemMoving() | ItemMoved() | ItemStopped() | CallOpened():
            return []  # a machine has none of these
        case CallExpired() | GateOpened() | GateDecided():
            return []


def denied_more(state: RunState) -> str:
    """What an exit line adds when tools were refused: the run may have done nothing."""
    denied = denial_words(state.denials)
    return f" ({visible(denied)}; see orchestrate status {state.run_id})" if denied else ""


def _machine_start(event: StepStarted, state: RunState, index: Index) -> list[str]:
    about = event.about
    lines = []
    if event.attempt == 1:
        if state.steps_run == 1:
            lines.append(f"Starting recipe: {visible(index.plan(state.root.plan).name)}")
        lines.append(f"Step: {visible(event.node)} {_visit(event, state, index)}")
    model = "" if about.model is None else f" [{visible(about.model)}]"
    sent = f"Sending prompt ({about.prompt_length} chars) to {visible(about.agent or '')}{model}"
    return [*lines, sent]


def _visit(event: StepStarted, state: RunState, index: Index) -> str:
    limits = index.plan(state.root.plan).limits
    return f"(visit {event.visit}/{limits.max_visits}, total {state.steps_run}/{limits.max_steps})"


def _outcome(event: StepFinished) -> str:
    why = event.result.outcome_description
    return visible(event.label if why is None else f"{event.label} ({why})")


def _transition(event: StepFinished, state: RunState, index: Index) -> list[str]:
    """`Transition: a → b`; an exit has a line of its own."""
    where = _next(event, state, index)
    return [f"Transition: {visible(event.node)} → {where}"] if where else []


def _next(event: StepFinished, state: RunState, index: Index) -> str:
    target = target_of(index.place(state.root.plan, event.node).node, event.label)
    match target:
        case Goto(node):
            return visible(node)
        case Restart(plan):
            return f"{visible(index.plan(plan).name)} (new session)"
        case Finish() | Leave() | Abort():
            return ""


# Machines: the structured log, with the events of A §16.3 and the fields of A §19.1.

LogLine = tuple[Level, str, dict[str, Any]]
_LOGGED = {
    "model": "model",
    "model_requested": "modelRequested",
    "outcome": "outcome",
    "prompt_length": "promptLength",
    "response_length": "responseLength",
    "duration_ms": "durationMs",
    "cost_usd": "costUsd",
}
# Said where the dollars are not.
_TOKENS = {"input_tokens": "inputTokens", "output_tokens": "outputTokens"}


def machine_fields(state: RunState, index: Index) -> dict[str, Any]:
    """A §19.1's fields, as far as the run itself says them."""
    return dict.fromkeys(FIELDS, "-") | {
        "sessionId": state.session.id or "-",
        "recipeId": index.plan(state.root.plan).name,
        "step": state.current or "-",
        "stepCount": state.steps_run,
        "visitCount": state.root.visits.get(state.current, 0),
    }


def machine_log(event: Event, state: RunState, index: Index) -> list[LogLine]:
    """What an event adds to `logs/orchestrator.log`."""
    run = machine_fields(state, index)
    match event:
        case StepStarted():
            return _started_log(event, state, index, run)
        case StepFinished() | AttemptEnded():
            return _ended_log(event, state, index, run)
        case SessionChosen():
            return [("info", "[session:chosen]", run)]
        case SessionSeen():
            return [("info", "[session:seen]", run)]
        case Restarted():
            return [("info", "[recipe:restarted]", run | {"restarts": state.restarts})]
        case RunEnded():
            level: Level = "info" if event.status == "completed" else "warn"
            end: dict[str, Any] = {"status": event.status, "code": event.code}
            if event.status == "failed":
                end["error"] = event.reason
            denied = denial_words(state.denials)
            more = _bill(state) | ({"denied": denied} if denied else {})
            return [(level, f"[recipe:exited] {event.reason}", run | end | more)]
        case RunStarted() | RunResumed() | Gap():
            return []
        case LoopOpened() | ItemMoving() | ItemMoved() | ItemStopped() | CallOpened():
            return []  # a machine has none of these
        case CallExpired() | GateOpened() | GateDecided():
            return []


def _started_log(
    event: StepStarted, state: RunState, index: Index, run: dict[str, Any]
) -> list[LogLine]:
    lines: list[LogLine] = []
    if event.attempt == 1 and state.steps_run == 1:
        words = f"[recipe:started] {run['recipeId']} (session: {run['sessionId']})"
        lines.append(("info", words, run | {"step": event.node, "visitCount": event.visit}))
    model = "" if event.about.model is None else f" [model: {event.about.model}]"
    again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
    words = f"[step:started] {event.node} {_visit(event, state, index)}{model}{again}"
    return [*lines, ("info", words, run | _step_fields(event, state, event.about))]


def _ended_log(
    event: StepFinished | AttemptEnded, state: RunState, index: Index, run: dict[str, Any]
) -> list[LogLine]:
    fields = run | _step_fields(event, state, event.result)
    if event.result.error is not None:
        fields["error"] = event.result.message
    if denied := denial_words(event.result.denials):
        fields["denied"] = denied
    if isinstance(event, AttemptEnded) and event.why == "failed":
        return [("warn", f"[step:failed] {retry_words(event)}", fields)]
    if isinstance(event, AttemptEnded):
        return [("warn", f"[step:{event.why}]", fields)]
    if event.result.status == "failed":
        return [("error", "[step:failed]", fields)]
    lines: list[LogLine] = [("info", f"[step:outcome] {_outcome(event)}", fields)]
    where = _next(event, state, index)
    if where:
        lines.append(("info", f"[step:transition] {event.node} → {where}", fields))
    return lines


def _step_fields(
    event: StepStarted | StepFinished | AttemptEnded, state: RunState, known: StepResult
) -> dict[str, Any]:
    """A §19.1; the session is the one of this turn, which a failure may have left since."""
    fields: dict[str, Any] = {
        "step": event.node,
        "stepCount": state.steps_run,
        "visitCount": event.visit,
    }
    if known.session_id is not None:
        fields["sessionId"] = known.session_id
    names = _LOGGED if known.cost_usd is not None else _LOGGED | _TOKENS
    logged = {ours: getattr(known, name) for name, ours in names.items() if known.has(name)}
    return fields | {ours: value for ours, value in logged.items() if value is not None}


def _bill(state: RunState) -> dict[str, Any]:
    """What the run has cost so far, and how many calls did not say (A §19.2)."""
    costs = state.costs
    spent: dict[str, Any] = {}
    if costs.cost_usd is not None:
        spent["costUsd"] = round(costs.cost_usd, 6)
    if costs.unreported:
        tokens = {"inputTokens": costs.input_tokens, "outputTokens": costs.output_tokens}
        spent |= {name: count for name, count in tokens.items() if count is not None}
    return {**spent, "calls": costs.turns, "unreported": costs.unreported}
