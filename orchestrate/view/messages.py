"""Maps the events of a run to the messages of A §16.2: the only place that does.

The order for a run is `recipe_started`, then for each step `recipe_step_started`, perhaps
`orchestration_retry`, and `recipe_step_transition` when the next step begins; at the end
`recipe_exited` and `turn_complete`. The protocol's clients, `--events` and the lines of A §16.3 in
the run's log are all made from these.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

from orchestrate.exits import STOPPED
from orchestrate.plan.nodes import SKIPPED
from orchestrate.state import events as on
from orchestrate.state.address import name_of_node, shown_path
from orchestrate.state.plan_file import read_documents
from orchestrate.state.rounds import step_of_part

if TYPE_CHECKING:
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run

Json = dict[str, Any]
ASKED_TO_EXIT = "user-requested"
_NEW_SESSION = "restart-new-session"
# Parked for a person: the run is still the session's.
_PARKED = ("gate", "lost", "approved")
# Events that may be about a step; those of a session that the whole run has name none.
Placed = (
    on.StepStarted | on.AttemptEnded | on.StepFinished | on.LoopOpened | on.CallOpened
    | on.CallExpired | on.GateOpened | on.GateDecided | on.SessionSeen | on.SessionChosen
)  # fmt: skip

_Entering = on.StepStarted | on.GateOpened | on.CallOpened | on.StepFinished


class Messages:
    """What the events so far come to; they must be heard in order, from the first or a state on."""

    def __init__(self, run: Run) -> None:
        self.run_id = run.id
        self.session_id = run.id
        self.dialect = ""
        # The step that the run is at, or the event that entered it: paths are costly to make.
        self._at: Placed | str | None = None
        self.is_active = False
        self._plan = ""
        self._count = 0
        self._begun: tuple[str, str, int] | None = None
        # Read when a name is asked for: the log of a run that works needs none of them.
        self._read: Callable[[], Json] = lambda: read_documents(run.root)
        self._documents: Json | None = None

    @classmethod
    def taken_up(cls, run: Run, state: RunState) -> Messages:
        """Where a run stands, without its journal."""
        told = cls(run)
        told.dialect, told._plan = state.dialect, state.root.plan
        told.session_id = state.session.id or run.id
        told.is_active = True
        if state.current:
            told._at, told._count = state.current, state.steps_run
            visit = state.root.visits.get(state.current, 0)
            told._begun = (state.root.key, state.current, visit)
        return told

    def copied(self) -> Messages:
        """The same, to go on from here more than once."""
        return copy(self)

    @property
    def step(self) -> str | None:
        """The step that the run is at."""
        at = self._at
        return at if at is None or isinstance(at, str) else self.path_of(at)

    def skip(self, event: on.Event) -> None:
        """An event whose messages are not wanted, though later ones depend on it."""
        if isinstance(event, _Entering):
            visited = self._visited(event)
            if visited is not None:
                self._begun, self._at = visited, event
                self._count += 1
        else:
            self.hear(event)

    def skip_steps(self, begun: int) -> None:
        """So many steps of a loop; what comes behind them says where the run is."""
        self._count += begun

    def hear(self, event: on.Event) -> list[Json]:
        """The messages that an event stands for."""
        match event:
            case on.RunStarted():
                self.dialect, self._plan = event.dialect, event.plan
                return self._begin(event.session)
            case on.RunResumed():
                was_active, self.is_active = self.is_active, True
                return [] if was_active else [self.started()]
            case on.SessionSeen() | on.SessionChosen():
                # Those of single steps are none of a client's business.
                if not event.node and event.session is not None:
                    self.session_id = event.session
                return []
            case on.Restarted():
                exited = self.exit(_NEW_SESSION)
                self._plan = event.plan
                return [*exited, *self._begin(event.session)]
            case on.Edited():
                self._plan = event.plan
                self._count, self._begun, self._at = 0, None, self._first_step()
                return []
            case on.RunEnded():
                return self._end(event)
            case on.AttemptEnded():
                said = {"step": self.path_of(event), "error": event.result.message}
                return [self._message("orchestration_retry", **said)] * (event.why == "reminded")
            case on.StepStarted() | on.GateOpened() | on.CallOpened() | on.StepFinished():
                return self._hear_step(event)
            case (
                on.LoopOpened()
                | on.RoundEnded()
                | on.ItemMoving()
                | on.ItemsMerged()
                | on.ItemMoved()
            ):
                return []
            case on.CostReserved() | on.LimitNear() | on.CallWaits():
                return []
            case on.ItemStopped() | on.CallExpired() | on.GateDecided() | on.OutputsGiven():
                return []
            case on.Gap() | on.Checkpointed():
                return []

    def started(self, **more: Any) -> Json:
        """`recipe_started`: the newest word about the run."""
        return {
            "type": "recipe_started",
            "recipe_id": self.named("id", "name"),
            "recipe_label": self.named("label", "description", "name"),
            "session_id": self.session_id,
            "current_step": self.step,
            "step": self.step,
            "step_count": max(1, self._count),
            "run_id": self.run_id,
            **more,
        }

    def exit(self, reason: str, error: str | None = None) -> list[Json]:
        """The run leaves its session; a resume brings it back."""
        if not self.is_active:
            return []
        self.is_active = False
        more = {} if error is None else {"error": error}
        return [
            self._message("recipe_exited", reason=reason, **more),
            self._message("turn_complete"),
        ]

    def path_of(self, event: Placed) -> str:
        """`Loop[3]/Step`; a machine's step has its name alone, also after a restart (A §16)."""
        if self.dialect == "machine" and not on.is_in_call(event):
            return name_of_node(event.node)
        return shown_path(event.frame, event.node)

    def named(self, *keys: str) -> str:
        """What the definition calls itself."""
        names = (self._document.get(key) for key in keys)
        return next((name for name in names if isinstance(name, str)), self._plan)

    def _message(self, kind: str, **fields: Any) -> Json:
        return {"type": kind, "session_id": self.session_id, **fields}

    def _begin(self, session: str | None) -> list[Json]:
        self.session_id = session or self.run_id
        self._count, self._begun, self._at = 0, None, self._first_step()
        self.is_active = True
        return [self.started()]

    def _hear_step(self, event: _Entering) -> list[Json]:
        before, was_first = self.step, self._begun is None
        visited = self._visited(event)
        if visited is None:
            return []
        self._begun, self._at = visited, event
        self._count += 1
        step = self.path_of(event)
        moved = self._message("recipe_step_transition", from_step=before, to_step=step)
        entered = self._message("recipe_step_started", step=step, step_count=self._count)
        return [entered] if was_first else [moved, entered]

    def _visited(self, event: _Entering) -> tuple[str, str, int] | None:
        """The visit that an event begins; None if it begins none.

        A step begins with the first that is heard of its visit.

        What a machine calls is one step of it; in the other dialects a call has steps of its own.
        A round or a check belongs to its step.
        """
        is_machine = self.dialect == "machine"
        is_part = bool(step_of_part(event.node)[1])
        if is_part or (on.is_in_call(event) if is_machine else isinstance(event, on.CallOpened)):
            return None
        visited = (event.frame, event.node, event.visit)
        if visited == self._begun:
            return None
        if isinstance(event, on.StepFinished):
            # It did not run: its result is from before. Others may go on from it.
            if event.result.reused and event.label != SKIPPED:
                self._at = event
            return None
        return visited

    def _end(self, event: on.RunEnded) -> list[Json]:
        kind = event.ending.kind
        if kind in _PARKED:
            return []
        if kind == "session-locked":
            self.is_active = False
            return [self._message("session_locked")]
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
        if self._documents is None:
            self._documents = self._read()
        found = self._documents.get(self._plan)
        return found if isinstance(found, dict) else {}
