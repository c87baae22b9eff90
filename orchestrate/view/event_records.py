"""A run's events as JSON records for programs: our names, A §16's messages, A §19.1's fields.

Everything comes from the run's journal and its frozen definition, so that a run of last year reads
the same as one that is being watched; the journal is masked already.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from orchestrate.plan.nodes import SKIPPED
from orchestrate.state import events as on
from orchestrate.state.address import name_of_node, shown_path
from orchestrate.state.events import Event, event_name, event_to_json
from orchestrate.state.plan_file import read_documents
from orchestrate.state.result import StepResult
from orchestrate.state.times import timestamp

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

Json = dict[str, Any]

# A §19.1, in its order; a field that an event says nothing about is null.
FIELDS = (
    "sessionId", "recipeId", "step", "stepCount", "visitCount", "outcome", "error", "model",
    "promptLength", "responseLength", "durationMs", "costUsd",
)  # fmt: skip
# Where a result or what is said about an attempt has one of them.
_KNOWN = {
    "outcome": "outcome",
    "model": "model",
    "prompt_length": "promptLength",
    "response_length": "responseLength",
    "duration_ms": "durationMs",
    "cost_usd": "costUsd",
}
# Events that may be about a step; those of a session that the whole run has name none.
_Placed = (
    on.StepStarted | on.AttemptEnded | on.StepFinished | on.LoopOpened | on.CallOpened
    | on.CallExpired | on.GateOpened | on.GateDecided | on.SessionSeen | on.SessionChosen
)  # fmt: skip


class EventRecords:
    """Makes records of a run's events, which it must be given in order and from the first on."""

    def __init__(self, run: Run) -> None:
        self._run_id = run.id
        self._documents = read_documents(run.root)
        self._dialect = ""
        self._plan = ""
        self._session: str | None = None
        self._step_count = 0
        # The step last entered, and its visit.
        self._here: tuple[str, int] | None = None
        self._visits: dict[tuple[str, str], int] = {}

    def copied(self) -> EventRecords:
        """The same, to go on from here more than once."""
        found = copy(self)
        found._visits = dict(self._visits)  # noqa: SLF001 - one of this class
        return found

    def skip(self, event: Event) -> None:
        """An event whose record is not wanted, though later ones depend on it."""
        self._fold(event)

    def record(self, seq: int, event: Event) -> Json:
        """The record of an event as the journal has it."""
        self._fold(event)
        fields = self._fields(event)
        record: Json = {
            "seq": seq,
            "at": None if isinstance(event, on.Gap) else timestamp(event.at),
            "event": event_name(event),
            "messages": [],
            "run_id": self._run_id,
            "dialect": self._dialect,
            **fields,
        }
        for message, details in self._messages(event, fields):
            record["messages"].append(message)
            record |= details
        written = event_to_json(event)
        record["data"] = {key: value for key, value in written.items() if key not in ("on", "at")}
        return record

    def _fold(self, event: Event) -> None:
        match event:
            case on.RunStarted():
                self._dialect, self._plan = event.dialect, event.plan
                self._session = event.session
            case on.SessionSeen() | on.SessionChosen():
                self._session = event.session
            case on.Edited():
                self._plan = event.plan
                self._step_count, self._here = 0, None
                self._visits.clear()
            case on.Restarted():
                self._plan, self._session = event.plan, event.session
                self._step_count = 0
                self._here = None
                self._visits.clear()
            case on.StepFinished(label=label) if label == SKIPPED:
                pass
            case on.StepStarted() | on.StepFinished() | on.LoopOpened() | on.CallOpened():
                key = (event.frame, event.node)
                self._here = (self._path_of(event), event.visit)
                if self._visits.get(key, 0) < event.visit:
                    self._visits[key] = event.visit
                    self._step_count += 1
            case on.AttemptEnded() | on.CallExpired() | on.GateOpened() | on.GateDecided():
                pass
            case on.ItemMoving() | on.RoundEnded() | on.OutputsGiven():
                pass
            case on.ItemMoved() | on.ItemStopped() | on.RunResumed() | on.RunEnded() | on.Gap():
                pass

    def _fields(self, event: Event) -> Json:
        known = _known_of(event)
        step, visit = self._here or (None, None)
        if isinstance(event, _Placed) and event.node:
            step, visit = self._path_of(event), event.visit
        fields: Json = dict.fromkeys(FIELDS)
        fields |= {
            "sessionId": known.session_id or self._session,
            "recipeId": self._named("id", "name"),
            "step": step,
            "stepCount": self._step_count,
            "visitCount": visit,
            "error": None if known.error is None else known.message,
        }
        given = {name: ours for name, ours in _KNOWN.items() if known.has(name)}
        return fields | {ours: getattr(known, name) for name, ours in given.items()}

    def _messages(self, event: Event, fields: Json) -> list[tuple[str, Json]]:
        """The messages of A §16.2 that the event stands for, each with its fields."""
        session = {"session_id": fields["sessionId"]}
        step = {**session, "step": fields["step"], "step_count": fields["stepCount"]}
        match event:
            case on.RunStarted():
                started = {
                    "recipe_id": fields["recipeId"],
                    "recipe_label": self._named("label", "description", "name"),
                    "current_step": self._document.get("initialStep"),
                    "step_count": 1,
                }
                return [("recipe_started", session | started)]
            case on.StepStarted():
                return [("recipe_step_started", step)] if event.attempt == 1 else []
            case on.AttemptEnded():
                retry = ("orchestration_retry", {**session, "step": fields["step"]})
                return [retry] if event.why == "reminded" else []
            case on.StepFinished():
                then = self._next_step(event)
                move = {"from_step": fields["step"], "to_step": then}
                return [] if then is None else [("recipe_step_transition", session | move)]
            case on.RunEnded():
                return _exit(event, session)
            case (
                on.RunResumed() | on.Restarted() | on.SessionSeen() | on.SessionChosen() | on.Gap()
            ):
                return []
            case on.LoopOpened() | on.ItemMoving() | on.ItemMoved() | on.ItemStopped():
                return []
            case on.CallOpened() | on.CallExpired() | on.GateOpened() | on.GateDecided():
                return []
            case on.RoundEnded() | on.OutputsGiven() | on.Edited():
                return []

    def _next_step(self, event: on.StepFinished) -> str | None:
        """Where a machine goes from here; other dialects' ways are in the plan alone."""
        if on.is_in_call(event):
            return None
        steps = self._document.get("steps")
        step = steps.get(event.node) if isinstance(steps, dict) else None
        ways = step.get("onOutcome", {}) if isinstance(step, dict) else {}
        way = ways.get(event.label) if isinstance(ways, dict) else None
        return way.get("nextStep") if isinstance(way, dict) else None

    def _path_of(self, event: _Placed) -> str:
        """`Loop[3]/Step`; a machine's step has its name alone, also after a restart (A §16)."""
        if self._dialect == "machine" and not on.is_in_call(event):
            return name_of_node(event.node)
        return shown_path(event.frame, event.node)

    @property
    def _document(self) -> Json:
        found = self._documents.get(self._plan)
        return found if isinstance(found, dict) else {}

    def _named(self, *keys: str) -> str:
        named = (self._document.get(key) for key in keys)
        return next((name for name in named if isinstance(name, str)), self._plan)


def _known_of(event: Event) -> StepResult:
    """What an event says of a step's attempt."""
    if isinstance(event, on.StepStarted):
        return event.about
    return event.result if isinstance(event, on.AttemptEnded | on.StepFinished) else StepResult()


def _exit(event: on.RunEnded, session: Json) -> list[tuple[str, Json]]:
    if event.status == "paused":
        is_locked = event.ending.kind == "session-locked"
        return [("session_locked", session)] if is_locked else []
    failed = event.reason if event.status in ("failed", "cancelled") else None
    exited = {**session, "reason": event.reason, "error": failed}
    return [("recipe_exited", exited), ("turn_complete", session)]
