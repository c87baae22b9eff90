"""What the clients of the protocol are told of a run: its messages, and `recipe_started` again.

They take `recipe_started` for the newest word about a run, so it is repeated with the new step
after each transition, and with the new session when a run's session gets its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.state import events as on
from orchestrate.state.alike import Alike
from orchestrate.view.event_records import EventRecords, skimmed
from orchestrate.view.source_files import CATALOGUE, shown_definition

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

Json = dict[str, Any]
CHAT = f"{CATALOGUE}.console/chat.yaml"


def recipe_name(definition: str) -> str:
    """A recipe as the console names it."""
    return "chat" if definition == CHAT else shown_definition(definition)


class ClientMessages:
    """What has been told of a run; it must be given the run's events in order, from the first."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.is_chat = False
        self.is_over = False
        self.is_parked = False
        # The number of the last event that was caught up with.
        self.heard = 0
        self._records = EventRecords(run)

    @property
    def session_id(self) -> str:
        return self._records.told.session_id

    @property
    def is_active(self) -> bool:
        return self._records.told.is_active

    def tell(self, seq: int, event: on.Event) -> tuple[Json, list[Json]]:
        """The record of an event, and the messages that it stands for."""
        before = self.session_id
        record, messages = self._records.tell(seq, event)
        self._note(event)
        if self.session_id != before and isinstance(event, on.SessionSeen | on.SessionChosen):
            messages = [self.started(previous_session_id=before)]
        else:
            messages = self._with_newest(messages)
        return record, [] if self.is_chat else messages

    def catch_up(self) -> None:
        """Hear all that has happened without telling it; up to damage, if there is any."""
        for seq, event in skimmed(self.run):
            self.heard = seq
            self._records.skip(event)
            if not isinstance(event, Alike):
                self._note(event)

    def _note(self, event: on.Event) -> None:
        match event:
            case on.RunStarted():
                self.is_chat = event.definition == CHAT
            case on.RunResumed():
                self.is_over = self.is_parked = False
            case on.RunEnded():
                self.is_parked = event.status == "paused"
                self.is_over = not self.is_parked
            case _:
                pass

    def _with_newest(self, messages: list[Json]) -> list[Json]:
        found: list[Json] = []
        for message in messages:
            found.append(message)
            if message["type"] == "recipe_step_transition":
                found.append(self.started())
        return found

    def started(self, **more: Any) -> Json:
        return self._records.told.started(**more)

    def exit(self, reason: str, error: str | None = None) -> list[Json]:
        """It leaves its session, though nothing of that is recorded: it was parked, or killed."""
        return [] if self.is_chat else self._records.told.exit(reason, error)
