"""A run's events as JSON records for programs: our names, A §16's messages, A §19.1's fields.

Everything comes from the run's journal and its frozen definition, so that a run of last year reads
the same as one that is being watched; the journal is masked already.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from orchestrate.state.address import name_of_node, shown_path
from orchestrate.state.durable import read_file
from orchestrate.state.events import RunEnded, event_from_json
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
# Events that begin a visit of a step, if it is not their second in it.
_BEGINNINGS = ("step-started", "step-finished", "loop-opened", "call-opened")


class EventRecords:
    """Makes records of a run's events, which it must be given in order and from the first on."""

    def __init__(self, run: Run) -> None:
        self._run_id = run.id
        self._documents = _documents_of(run)
        self._dialect = ""
        self._plan = ""
        self._session: str | None = None
        self._step_count = 0
        # The step last entered, and its visit.
        self._here: tuple[str, int] | None = None
        self._visits: dict[tuple[str, str], int] = {}

    def record(self, seq: int, event: Json) -> Json:
        """The record of an event as the journal has it."""
        name = event["on"]
        self._fold(name, event)
        fields = self._fields(event)
        at = event.get("at")
        record: Json = {
            "seq": seq,
            "at": None if at is None else timestamp(at),
            "event": name,
            "messages": [],
            "run_id": self._run_id,
            "dialect": self._dialect,
            **fields,
        }
        for message, details in self._messages(name, event, fields):
            record["messages"].append(message)
            record |= details
        record["data"] = {key: value for key, value in event.items() if key not in ("on", "at")}
        return record

    def _fold(self, name: str, event: Json) -> None:
        match name:
            case "run-started":
                self._dialect, self._plan = event["dialect"], event["plan"]
                self._session = event.get("session")
            case "session-seen" | "session-chosen":
                self._session = event["session"]
            case "restarted":
                self._plan, self._session = event["plan"], event["session"]
                self._step_count = 0
                self._here = None
                self._visits.clear()
            case _ if name in _BEGINNINGS and event.get("label") != "@skipped":
                key = (event["frame"], event["node"])
                self._here = (self._path_of(event), event["visit"])
                if self._visits.get(key, 0) < event["visit"]:
                    self._visits[key] = event["visit"]
                    self._step_count += 1
            case _:
                pass

    def _fields(self, event: Json) -> Json:
        known: Json = event.get("result") or event.get("about") or {}
        step, visit = self._here or (None, None)
        fields: Json = dict.fromkeys(FIELDS)
        fields |= {
            "sessionId": known.get("session_id") or self._session,
            "recipeId": self._named("id", "name"),
            "step": self._path_of(event) if event.get("node") else step,
            "stepCount": self._step_count,
            "visitCount": event.get("visit", visit),
            "error": _message_of(known),
        }
        fields |= {ours: known[name] for name, ours in _KNOWN.items() if name in known}
        return fields

    def _messages(self, name: str, event: Json, fields: Json) -> list[tuple[str, Json]]:
        """The messages of A §16.2 that the event stands for, each with its fields."""
        session = {"session_id": fields["sessionId"]}
        step = {**session, "step": fields["step"], "step_count": fields["stepCount"]}
        match name:
            case "run-started":
                started = {
                    "recipe_id": fields["recipeId"],
                    "recipe_label": self._named("label", "description", "name"),
                    "current_step": self._document.get("initialStep"),
                    "step_count": 1,
                }
                return [("recipe_started", session | started)]
            case "step-started" if event["attempt"] == 1:
                return [("recipe_step_started", step)]
            case "attempt-ended" if event["why"] == "reminded":
                return [("orchestration_retry", {**session, "step": fields["step"]})]
            case "step-finished" if (then := self._next_step(event)) is not None:
                move = {"from_step": fields["step"], "to_step": then}
                return [("recipe_step_transition", session | move)]
            case "run-ended":
                return self._exit(event, session)
            case _:
                return []

    def _exit(self, event: Json, session: Json) -> list[tuple[str, Json]]:
        is_over = event["status"] != "paused"
        failed = event["reason"] if event["status"] in ("failed", "cancelled") else None
        exited = {**session, "reason": event["reason"], "error": failed}
        if not is_over:
            ended = event_from_json(event)
            assert isinstance(ended, RunEnded)
            return [("session_locked", session)] if ended.ending.kind == "session-locked" else []
        return [("recipe_exited", exited), ("turn_complete", session)]

    def _next_step(self, event: Json) -> str | None:
        """Where a machine goes from here; other dialects' ways are in the plan alone."""
        steps = self._document.get("steps")
        step = steps.get(event["node"]) if isinstance(steps, dict) else None
        ways = step.get("onOutcome", {}) if isinstance(step, dict) else {}
        way = ways.get(event["label"]) if isinstance(ways, dict) else None
        return way.get("nextStep") if isinstance(way, dict) else None

    def _path_of(self, event: Json) -> str:
        """`Loop[3]/Step`; a machine's step has its name alone, also after a restart (A §16)."""
        if self._dialect == "machine":
            return name_of_node(event["node"])
        # The top frame's address is empty, and an event of a session leaves that out.
        return shown_path(event.get("frame", ""), event["node"])

    @property
    def _document(self) -> Json:
        found = self._documents.get(self._plan)
        return found if isinstance(found, dict) else {}

    def _named(self, *keys: str) -> str:
        named = (self._document.get(key) for key in keys)
        return next((name for name in named if isinstance(name, str)), self._plan)


def _documents_of(run: Run) -> Json:
    """The definition as it was when the run started; {} if it cannot be read any more."""
    try:
        found = json.loads(read_file(run.root / "definition.json") or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _message_of(known: Json) -> str | None:
    error = known.get("error")
    return error.get("message") if isinstance(error, dict) else None
