"""What events add to `logs/orchestrator.log`; a machine's lines are those of A §16.3 and §19.1."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import visible
from orchestrate.state import events as on
from orchestrate.state.address import shown_path
from orchestrate.state.denials import denial_words
from orchestrate.state.events import Event, event_name
from orchestrate.state.logbook import Level, Logbook
from orchestrate.state.model import Index, RunState
from orchestrate.state.result import StepResult
from orchestrate.state.store import Listener
from orchestrate.view.event_records import FIELDS
from orchestrate.view.event_words import outcome_words, retry_words, visit_words, wait_words
from orchestrate.view.messages import Messages

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
_PLAIN = (
    "status", "exit_code", "duration_ms", "attempts", "outcome", "model", "model_requested",
    "session_id", "prompt_length", "response_length", "cost_usd", "input_tokens", "output_tokens",
    "metrics",
)  # fmt: skip


def keep_log(logbook: Logbook, index: Index, told: Messages) -> Listener:
    """Who is to hear the events of a run, and writes them down; `told` is where it stands."""

    has_starts = logbook.wants("debug")

    def hear(event: Event, state: RunState) -> None:
        is_machine = state.dialect == "machine"
        if type(event) is on.StepStarted and not is_machine and not has_starts:
            return  # half of all events, for a line that is not wanted
        messages = told.hear(event) if is_machine else []
        lines = machine_log(event, messages, state, index) if is_machine else plain_log(event)
        for level, words, about in lines:
            logbook.write(level, words, about)

    return hear


def log_asked(logbook: Logbook, state: RunState, index: Index, lines: list[str]) -> None:
    """Whom the run asks, with which model and permissions."""
    fields = machine_fields(state, index) if state.dialect == "machine" else {}
    for line in lines:
        logbook.write("info", f"[run:asks] {line}", fields)


def plain_log(event: Event) -> list[LogLine]:  # noqa: PLR0912 - one an event
    level: Level = "debug" if isinstance(event, on.StepStarted) else "info"
    fields: dict[str, Any] = {}
    match event:
        case on.StepFinished() | on.AttemptEnded():
            result = event.result
            given = result.to_json()
            fields = {name: given[name] for name in _PLAIN if given.get(name) is not None}
            if "metrics" in fields:
                measured = fields.pop("metrics").items()
                fields |= {name: value for name, value in measured if value is not None}
            if result.error is not None:
                fields["error"], level = result.message, "warn"
            if denied := denial_words(result.denials):
                fields["denied"], level = denied, "warn"
        case on.RunEnded():
            fields = {"status": event.status, "reason": event.reason, "code": event.code}
        case on.LoopOpened():
            fields = {"items": len(event.items)}
        case on.RoundEnded():
            fields = {"goes_on": event.goes_on}
            if event.error:
                fields, level = {"error": event.error}, "warn"
        case on.OutputsGiven():
            fields = {"outputs": list(event.outputs)}
            if event.undefined:
                fields, level = fields | {"undefined": event.undefined}, "warn"
        case on.ItemMoved():
            fields = dict(event.lifecycle)
        case on.CallExpired():
            fields, level = {"timeout_s": event.timeout_s}, "warn"
        case (
            on.GateOpened() | on.GateDecided() | on.CallOpened() | on.Restarted() | on.StepStarted()
        ):
            pass
        case (
            on.RunStarted() | on.RunResumed() | on.SessionSeen() | on.SessionChosen() | on.Gap()
            | on.ItemMoving() | on.ItemsMerged() | on.ItemStopped()
        ):  # fmt: skip
            pass
        case on.CostReserved() | on.LimitNear() | on.CallWaits():
            level, _, fields = _before_call(event)
        case on.Checkpointed():
            level = "warn" if event.fault else "debug"
            fields = {"files": len(event.changes) + event.more, "fault": event.fault}
        case on.Edited():
            fields = {"edit": event.edit, "definition": event.definition}
    node = getattr(event, "node", None)
    if node is not None:
        fields = {"step": shown_path(getattr(event, "frame", ""), node), **fields}
    return [(level, event_name(event), fields)]


def machine_fields(state: RunState, index: Index) -> dict[str, Any]:
    """A §19.1's fields, as far as the run itself says them."""
    return dict.fromkeys(FIELDS, "-") | {
        "sessionId": state.session.id or "-",
        "recipeId": index.plan(state.root.plan).name,
        "step": state.current or "-",
        "stepCount": state.steps_run,
        "visitCount": state.root.visits.get(state.current, 0),
    }


def machine_log(
    event: Event, messages: list[dict[str, Any]], state: RunState, index: Index
) -> list[LogLine]:
    """What an event adds to `logs/orchestrator.log`, with the messages that it stands for."""
    if on.is_in_call(event):
        return plain_log(event)
    run = machine_fields(state, index)
    level: Level
    match event:
        case on.StepStarted() | on.GateOpened() | on.CallOpened():
            return _started_log(event, messages, state, index, run)
        case on.StepFinished() | on.AttemptEnded():
            return _ended_log(event, state, run)
        case on.SessionChosen():
            return [("info", "[session:chosen]", run)]
        case on.SessionSeen():
            return [("info", "[session:seen]", run)]
        case on.Restarted():
            fields = run | {"restarts": state.restarts}
            said = [*filter(None, map(_words, messages)), "[recipe:restarted]"]
            return [("info", words, fields) for words in said]
        case on.RunEnded():
            level = "info" if event.status == "completed" else "warn"
            end: dict[str, Any] = {"status": event.status, "code": event.code}
            if event.status == "failed":
                end["error"] = event.reason
            denied = denial_words(state.denials)
            more = _bill(state) | ({"denied": denied} if denied else {})
            # One that is parked for a person does not leave its session.
            words = next(filter(None, map(_words, messages)), f"[run:parked] {event.reason}")
            if event.reason not in words:
                end["reason"] = event.reason
            return [(level, words, run | end | more)]
        case on.Edited():
            return [("info", f"[run:edited] {event.edit}", run)]
        case on.CostReserved() | on.LimitNear() | on.CallWaits():
            level, words, fields = _before_call(event)
            return [(level, words, run | fields)]
        case (
            on.RunStarted() | on.RunResumed() | on.Gap() | on.LoopOpened() | on.ItemMoving()
            | on.ItemsMerged() | on.ItemMoved() | on.ItemStopped() | on.Checkpointed()
        ):  # fmt: skip
            return []
        case on.OutputsGiven() | on.RoundEnded() | on.CallExpired() | on.GateDecided():
            return []


def _words(message: dict[str, Any]) -> str:
    """The line of A §16.3 for a message that has one of its own."""
    match message["type"]:
        case "recipe_step_transition":
            before, after = visible(message["from_step"]), visible(message["to_step"])
            return f"[step:transition] {before} → {after}"
        case "recipe_exited":
            return f"[recipe:exited] {message['reason']}"
        case _:
            return ""


def _before_call(event: on.CostReserved | on.LimitNear | on.CallWaits) -> LogLine:
    """What is said of money and waiting before an agent is asked."""
    if isinstance(event, on.LimitNear):
        return "warn", f"[limit:near] {event.words}", {"limit": event.words}
    if isinstance(event, on.CallWaits):
        words = wait_words(event)
        return "info", f"[step:waits] {event.node}: {words}", {"waits": words}
    what = "given back" if event.given_back else "reserved"
    return "debug", f"[step:{what}] {event.node}", {"usd": event.usd}


def _started_log(
    event: on.StepStarted | on.GateOpened | on.CallOpened,
    messages: list[dict[str, Any]],
    state: RunState,
    index: Index,
    run: dict[str, Any],
) -> list[LogLine]:
    """A round, a check and an attempt that is not the first have no messages, but a line."""
    about = event.about if isinstance(event, on.StepStarted) else StepResult()
    attempt = event.attempt if isinstance(event, on.StepStarted) else 1
    fields = run | _step_fields(event, state, about)
    lines: list[LogLine] = []
    for message in messages:
        if message["type"] == "recipe_step_started" and message["step_count"] == 1:
            # Its session is known by now, which it may not have been when the run began.
            words = f"[recipe:started] {run['recipeId']} (session: {run['sessionId']})"
        else:
            words = _words(message)
        if words:
            lines.append(("info", words, run | {"step": event.node, "visitCount": event.visit}))
    model = "" if about.model is None else f" [model: {about.model}]"
    again = f" (attempt {attempt})" if attempt > 1 else ""
    words = f"[step:started] {event.node} {visit_words(event, state, index)}{model}{again}"
    return [*lines, ("info", words, fields)]


def _ended_log(
    event: on.StepFinished | on.AttemptEnded, state: RunState, run: dict[str, Any]
) -> list[LogLine]:
    fields = run | _step_fields(event, state, event.result)
    if event.result.error is not None:
        fields["error"] = event.result.message
    if denied := denial_words(event.result.denials):
        fields["denied"] = denied
    if isinstance(event, on.AttemptEnded) and event.why == "failed":
        return [("warn", f"[step:failed] {retry_words(event)}", fields)]
    if isinstance(event, on.AttemptEnded):
        return [("warn", f"[step:{event.why}]", fields)]
    if event.result.status == "failed":
        return [("error", "[step:failed]", fields)]
    return [("info", f"[step:outcome] {outcome_words(event)}", fields)]


def _step_fields(
    event: on.StepStarted | on.StepFinished | on.AttemptEnded | on.GateOpened | on.CallOpened,
    state: RunState,
    known: StepResult,
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
