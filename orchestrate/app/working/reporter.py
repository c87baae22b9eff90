"""Who is told what happens while a run is started and carried out, and can be asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.agents.stand_ins.human import CONVERSATION, Person, has_terminal
from orchestrate.engine.runtime import Answer, Operator
from orchestrate.engine.spread import How, Spreader
from orchestrate.engine.stop import GRACE_S, Stop
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.exits import Ending
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

NOWHERE = Place()

__all__ = [
    "CONVERSATION",
    "GRACE_S",
    "SILENT",
    "Answer",
    "How",
    "Operator",
    "Person",
    "Reporter",
    "Spreader",
    "Stop",
    "has_terminal",
]


class Reporter:
    """Tells nothing and asks nothing; the command line and the Python API have their own."""

    def __init__(self, place: Place = NOWHERE) -> None:
        # For the commands that are advised.
        self.place = place

    def note(self, text: str) -> None:
        """A message for people, as one or more lines."""

    def confirm(self, question: str) -> bool | None:  # noqa: ARG002
        """Does the person at the terminal agree? None without one."""
        return None

    def detail(self, text: str) -> None:
        """A message that may be left out."""

    def findings(self, found: tuple[Diagnostic, ...], dropped: int) -> None:
        """Warnings about the definition, and how many more there are."""

    def begins(self, store: Store, what: str, workspace: Workspace, *, is_resumed: bool) -> None:
        """A run has its folder and its lock; `what` it carries out, and where."""

    def started(self, run: Run) -> None:
        """The run's start is on record, and nothing of it has been carried out yet."""

    def asks(self, lines: list[str]) -> None:
        """Whom the run asks, with which model and permissions, before anything is done."""

    def rests(self, store: Store, now: float) -> None:
        """A run goes on; some of its steps may rest before their next attempt."""

    def follow(self, store: Store, stop: Stop) -> Callable[[], None]:  # noqa: ARG002
        """Listen to the events of a run; what is returned ends that."""
        return lambda: None

    def spreader(self, store: Store, stop: Stop) -> Spreader | None:  # noqa: ARG002
        """Who brings items of a run on a fleet to other machines."""
        return None

    def ended(self, store: Store, ending: Ending) -> None:
        """The run has ended, is parked or was stopped; its lock is free again."""

    def operator(self, stop: Stop) -> Operator:  # noqa: ARG002
        """Who decides about failures and gates."""
        return Operator()

    def person(self, stop: Stop) -> Person:  # noqa: ARG002
        """Who answers for the backend `human`."""
        return Person(lambda _: None, lambda _: None, is_terminal=False)


SILENT = Reporter()
