"""A run's events as JSON records for programs: our names, A §16's messages, A §19.1's fields.

Everything comes from the run's journal and its frozen definition, so that a run of last year reads
the same as one that is being watched; the journal is masked already.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from orchestrate.errors import OrchestrateError
from orchestrate.plan.nodes import SKIPPED
from orchestrate.state import events as on
from orchestrate.state.alike import Alike, read_alike
from orchestrate.state.events import Event, event_name, event_to_json
from orchestrate.state.gates import is_of_stage
from orchestrate.state.plan_file import index_of
from orchestrate.state.result import StepResult
from orchestrate.state.rounds import step_of_part
from orchestrate.state.times import timestamp
from orchestrate.view.messages import Messages, Placed

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

# What a message says and the record says itself.
_OWN = ("type", "run_id", "step")


class EventRecords:
    """Makes records of a run's events, which it must be given in order and from the first on."""

    def __init__(self, run: Run) -> None:
        self.told = Messages(run)
        self._session: str | None = None
        self._step_count = 0
        # What was last heard of a step: its path is made when it is asked for, which is costly.
        self._here: Placed | None = None
        self._visits: dict[tuple[str, str], int] = {}

    def copied(self) -> EventRecords:
        """The same, to go on from here more than once."""
        found = copy(self)
        found.told = self.told.copied()
        found._visits = dict(self._visits)  # noqa: SLF001 - one of this class
        return found

    def skip(self, event: Event | Alike) -> None:
        """An event whose record is not wanted, though later ones depend on it."""
        if isinstance(event, Alike):
            begun = sum(map(len, event.steps.values()))
            self.told.skip_steps(begun)
            self._step_count += begun
            return
        self.told.skip(event)
        self._fold(event)

    def record(self, seq: int, event: Event) -> Json:
        """The record of an event as the journal has it."""
        return self.tell(seq, event)[0]

    def tell(self, seq: int, event: Event) -> tuple[Json, list[Json]]:
        """The record, and the messages that the event stands for with all their fields."""
        messages = self.told.hear(event)
        self._fold(event)
        fields = self._fields(event)
        record: Json = {
            "seq": seq,
            "at": None if isinstance(event, on.Gap) else timestamp(event.at),
            "event": event_name(event),
            "messages": [message["type"] for message in messages],
            "run_id": self.told.run_id,
            "dialect": self.told.dialect,
            **fields,
        }
        for message in messages:
            record |= {name: value for name, value in message.items() if name not in _OWN}
        written = event_to_json(event)
        record["data"] = {key: value for key, value in written.items() if key not in ("on", "at")}
        return record, messages

    def _fold(self, event: Event) -> None:
        match event:
            case on.RunStarted():
                self._session = event.session
            case on.SessionSeen() | on.SessionChosen():
                self._session = event.session
            case on.Edited():
                self._step_count, self._here = 0, None
                self._visits.clear()
            case on.Restarted():
                self._session = event.session
                self._step_count = 0
                self._here = None
                self._visits.clear()
            case on.StepFinished(label=label) if label == SKIPPED:
                pass
            case on.StepStarted() | on.StepFinished() | on.LoopOpened() | on.CallOpened():
                self._enter(event)
            case on.GateOpened():
                if not is_of_stage(event.node):
                    self._enter(event)
            case on.AttemptEnded() | on.CallExpired() | on.GateDecided():
                pass
            case on.ItemMoving() | on.ItemsMerged() | on.RoundEnded() | on.OutputsGiven():
                pass
            case on.CostReserved() | on.LimitNear() | on.CallWaits():
                pass
            case on.ItemMoved() | on.ItemStopped() | on.RunResumed() | on.RunEnded() | on.Gap():
                pass
            case on.Checkpointed():
                pass

    def _enter(self, event: Placed) -> None:
        """Count as the state does: a loop is not a step, and a check or a round is part of one."""
        key = (event.frame, event.node)
        self._here = event
        if self._visits.get(key, 0) < event.visit:
            self._visits[key] = event.visit
            is_part = bool(step_of_part(event.node)[1])
            self._step_count += not (is_part or isinstance(event, on.LoopOpened))

    def _fields(self, event: Event) -> Json:
        known = _known_of(event)
        here = event if isinstance(event, Placed) and event.node else self._here
        fields: Json = dict.fromkeys(FIELDS)
        fields |= {
            "sessionId": known.session_id or self._session,
            "recipeId": self.told.named("id", "name"),
            "step": None if here is None else self.told.path_of(here),
            "stepCount": self._step_count,
            "visitCount": None if here is None else here.visit,
            "error": None if known.error is None else known.message,
        }
        given = {name: ours for name, ours in _KNOWN.items() if known.has(name)}
        return fields | {ours: getattr(known, name) for name, ours in given.items()}


def skimmed(run: Run) -> Iterator[tuple[int, Event | Alike]]:
    """The journal for readers that skip most: items of a loop that were all alike come as one."""
    try:
        index = index_of(run)
    except OrchestrateError:
        index = None  # no loop is known, so all is read
    for one in read_alike(run.events, index):
        yield one.seq, one if isinstance(one, Alike) else one.event


def _known_of(event: Event) -> StepResult:
    """What an event says of a step's attempt."""
    if isinstance(event, on.StepStarted):
        return event.about
    return event.result if isinstance(event, on.AttemptEnded | on.StepFinished) else StepResult()
