"""Maps the events of a run to the messages of the seeds' protocol (A §16.2, A3 §5.2).

The order for a run is `recipe_started`, then for each step `recipe_step_started`, perhaps
`orchestration_retry`, and `recipe_step_transition` with `recipe_started` once more when the next
step begins; at the end `recipe_exited` and `turn_complete`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.exits import STOPPED
from orchestrate.state import events as on
from orchestrate.state.plan_file import read_documents
from orchestrate.view.event_records import EventRecords
from orchestrate.view.source_files import CATALOGUE

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

Json = dict[str, Any]
CHAT = f"{CATALOGUE}.console/chat.yaml"
ASKED_TO_EXIT = "user-requested"
_NEW_SESSION = "restart-new-session"
# Parked for a person: the run is still the session's.
_PARKED = ("gate", "lost", "approved")


class Telling:
    """What has been told of a run; it must be given the run's events in order, from the first."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.session_id = run.id
        # The session that the agent knows; None for runs that have none of their own.
        self.agent_session: str | None = None
        self.workspace = ""
        self.is_chat = False
        self.is_active = False
        self.is_over = False
        self.step: str | None = None
        self._records = EventRecords(run)
        self._documents = read_documents(run.root)
        self._dialect = ""
        self._plan = ""
        self._recipe = ""
        self._count = 0
        self._begun: tuple[str, str, int] | None = None

    def tell(self, seq: int, event: on.Event) -> tuple[Json, list[Json]]:
        """The record of an event, and the messages that it stands for."""
        record = self._records.record(seq, event)
        messages = self._messages(event, record)
        return record, [] if self.is_chat else messages

    def started(self, **more: Any) -> Json:
        """`recipe_started`, which clients take for the newest word about the run."""
        return {
            "type": "recipe_started",
            "recipe_id": self._recipe,
            "recipe_label": self._named("label", "description", "name"),
            "session_id": self.session_id,
            "current_step": self.step,
            "step": self.step,
            "step_count": max(1, self._count),
            "run_id": self.run.id,
            **more,
        }

    def exit(self, reason: str, error: str | None = None) -> list[Json]:
        """The run leaves its session; a resume brings it back."""
        if not self.is_active:
            return []
        self.is_active = False
        exited = {"type": "recipe_exited", "session_id": self.session_id, "reason": reason}
        exited |= {} if error is None else {"error": error}
        return [exited, {"type": "turn_complete", "session_id": self.session_id}]

    def _messages(self, event: on.Event, record: Json) -> list[Json]:
        match event:
            case on.RunStarted():
                return self._begin(event)
            case on.RunResumed():
                self.is_over = False
                was_active, self.is_active = self.is_active, True
                return [] if was_active else [self.started()]
            case on.SessionSeen() | on.SessionChosen():
                return self._change_session(event)
            case on.StepStarted() | on.GateOpened():
                return self._enter(event, record["step"])
            case on.AttemptEnded():
                said = {"step": record["step"], "error": event.result.message}
                retry = {"type": "orchestration_retry", "session_id": self.session_id, **said}
                return [retry] if event.why == "reminded" else []
            case on.Restarted():
                return self._restart(event)
            case on.RunEnded():
                return self._end(event)
            case on.StepFinished() | on.LoopOpened() | on.RoundEnded() | on.ItemMoving():
                return []
            case on.ItemMoved() | on.ItemStopped() | on.CallOpened() | on.CallExpired():
                return []
            case on.GateDecided() | on.OutputsGiven() | on.Gap() | on.Edited():
                return []

    def _begin(self, event: on.RunStarted) -> list[Json]:
        self._dialect, self._plan = event.dialect, event.plan
        self.workspace = event.workspace
        self.is_chat = event.definition == CHAT
        self.agent_session = event.session
        self.session_id = event.session or self.run.id
        self._recipe = self._named("id", "name")
        self.step = self._first_step()
        self.is_active = True
        return [self.started()]

    def _change_session(self, event: on.SessionSeen | on.SessionChosen) -> list[Json]:
        """A machine's own session; those of single steps are none of a client's business."""
        is_own = not event.node and event.session is not None
        if not is_own or event.session == self.session_id:
            self.agent_session = event.session if is_own else self.agent_session
            return []
        before, self.session_id = self.session_id, str(event.session)
        self.agent_session = event.session
        return [self.started(previous_session_id=before)]

    def _enter(self, event: on.StepStarted | on.GateOpened, step: str) -> list[Json]:
        visited = (event.frame, event.node, event.visit)
        if visited == self._begun:
            return []
        before, was_first = self.step, self._begun is None
        self._begun, self.step = visited, step
        self._count += 1
        messages: list[Json] = []
        if not was_first:
            moved = {"from_step": before, "to_step": step}
            transition = {"type": "recipe_step_transition", "session_id": self.session_id}
            messages = [{**transition, **moved}, self.started()]
        begun = {"step": step, "step_count": self._count}
        entered = {"type": "recipe_step_started", "session_id": self.session_id, **begun}
        return [*messages, entered]

    def _restart(self, event: on.Restarted) -> list[Json]:
        exited = self.exit(_NEW_SESSION)
        self._plan = event.plan
        self._recipe = self._named("id", "name")
        self.agent_session = event.session
        self.session_id = event.session or self.run.id
        self._count, self._begun = 0, None
        self.step = self._first_step()
        self.is_active = True
        return [*exited, self.started()]

    def _end(self, event: on.RunEnded) -> list[Json]:
        kind = event.ending.kind
        self.is_over = event.status != "paused"
        if kind in _PARKED:
            return []
        if kind == "session-locked":
            self.is_active = False
            return [{"type": "session_locked", "session_id": self.session_id}]
        if kind in STOPPED:
            return self.exit(ASKED_TO_EXIT)
        return self.exit(event.reason, None if event.status == "completed" else event.reason)

    def _first_step(self) -> str | None:
        document = self._document
        if isinstance(document.get("initialStep"), str):
            return str(document["initialStep"])
        for parts in (document.get("stages"), document.get("steps")):
            if isinstance(parts, list) and parts and isinstance(parts[0], dict):
                steps = parts[0].get("steps")
                first = steps[0] if isinstance(steps, list) and steps else parts[0]
                named = first if isinstance(first, dict) else {}
                found = named.get("id") or named.get("name")
                return found if isinstance(found, str) else None
        return None

    @property
    def _document(self) -> Json:
        found = self._documents.get(self._plan)
        return found if isinstance(found, dict) else {}

    def _named(self, *keys: str) -> str:
        named = (self._document.get(key) for key in keys)
        return next((name for name in named if isinstance(name, str)), self._plan)
