"""The Python interface: compile, start, resume, read and decide, as the commands of these names do.

Nothing is printed, no question is asked. What goes wrong is an exception of `orchestrate.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from orchestrate.app.deciding import decide as deciding
from orchestrate.app.definitions.find import compiled
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.resuming import resume as resuming
from orchestrate.app.resuming.edit import EditRequest
from orchestrate.app.starting import start as starting
from orchestrate.app.starting.estimate import confirm_cost
from orchestrate.app.starting.prepare import prepare
from orchestrate.app.working.listeners import listen_safely
from orchestrate.app.working.reporter import Reporter, Stop
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.plan.nodes import Program
from orchestrate.record import field, record
from orchestrate.show.findings import draw
from orchestrate.state.events import Event, RunResumed, RunStarted
from orchestrate.state.model import RunState
from orchestrate.state.recorded import last_recorded
from orchestrate.state.runs import LATEST
from orchestrate.state.store import Store
from orchestrate.view.outcomes import Decided
from orchestrate.view.place import Place
from orchestrate.view.result_document import outputs_document
from orchestrate.view.run_view import RunView, run_view

Listener = Callable[[Event, RunState], None]
_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


@record
class RunResult:
    """How a run stands after `start` or `resume`, with the exit code of the command.

    `messages` are what the command would have written to stderr, but for the run's progress.
    """

    run_id: str
    folder: Path
    status: str
    reason: str
    exit_code: int
    messages: tuple[str, ...]
    # What the run gives, once it has come to its end.
    outputs: dict[str, Any] = field(default_factory=dict)


def compile_file(file: str | Path, *, workspace: str | Path | None = None) -> Program:
    """The checked plan of a file, or of the recipe of that id; `DefinitionError` has all errors."""
    return compiled(str(file), workspace_of(_text(workspace)))[1]


def start(
    file: str | Path,
    *,
    workspace: str | Path | None = None,
    state_dir: str | Path | None = None,
    context: Mapping[str, Any] = _NO_VALUES,
    on_event: Listener | None = None,
    settings: RunSettings | None = None,
) -> RunResult:
    """Run a recipe until it ends, waits for a decision or is stopped.

    `settings` are the flags of `orchestrate run`; `on_event` hears each event once it is on record.
    """
    place = Place(_text(workspace), _text(state_dir))
    prepared = prepare(str(file), workspace_of(place.working_dir), _settings(settings), context)
    if prepared.settings.confirm_above is not None:
        confirm_cost(prepared, None)
    reporter = _Messages(place, on_event)
    outcome = starting.start(prepared, reporter)
    return _result(outcome.store, outcome.ending.code, reporter)


def resume(  # noqa: PLR0913 - one a flag
    run: str = LATEST,
    *,
    workspace: str | Path | None = None,
    state_dir: str | Path | None = None,
    context: Mapping[str, Any] = _NO_VALUES,
    as_started: bool = False,
    edited: bool = False,
    redo: Sequence[str] = (),
    accept: Sequence[str] = (),
    repair: bool = False,
    on_event: Listener | None = None,
    settings: RunSettings | None = None,
) -> RunResult:
    """Go on with a run; one that is over stays as it is, and the result says so.

    `edited` takes the files as they are now, `redo` does steps again, `accept` keeps results.
    """
    place = Place(_text(workspace), _text(state_dir))
    _, found, home = find_stored(run, place)
    reporter = _Messages(place, on_event)
    resumed = resuming.resume(
        found,
        home,
        _settings(settings),
        reporter,
        context=context,
        repair=repair,
        as_started=as_started,
        request=EditRequest(edited, tuple(redo), tuple(accept)),
    )
    if resumed.nothing_left:
        reporter.note(resumed.nothing_left)
    return _result(resumed.store, resumed.code, reporter)


def read_run(
    run: str = LATEST,
    *,
    workspace: str | Path | None = None,
    state_dir: str | Path | None = None,
) -> RunView:
    """A run as it stands now, also while another process works on it; nothing is locked."""
    return run_view(find_stored(run, Place(_text(workspace), _text(state_dir)))[1])


def decide(
    decision: Literal["approved", "denied"],
    run: str = LATEST,
    *,
    stage: str | None = None,
    message: str = "",
    workspace: str | Path | None = None,
    state_dir: str | Path | None = None,
) -> Decided:
    """Decide about the gate that a run waits at; `resume` goes on after an approval."""
    if decision not in ("approved", "denied"):
        raise UsageError(f"a decision is 'approved' or 'denied', not {decision!r}")
    _, found, home = find_stored(run, Place(_text(workspace), _text(state_dir)))
    return deciding.decide(found, home, stage, decision, message)


class _Messages(Reporter):
    """Keeps messages, and lets one listener hear the events."""

    def __init__(self, place: Place, on_event: Listener | None) -> None:
        super().__init__(place)
        self.messages: list[str] = []
        self._on_event = on_event

    def note(self, text: str) -> None:
        if text:
            self.messages.append(text.removesuffix("\n"))

    detail = note

    def findings(self, found: Any, dropped: int) -> None:
        self.note(draw(found, dropped))

    def follow(self, store: Store, stop: Stop) -> Callable[[], None]:  # noqa: ARG002
        if self._on_event is not None:
            on_event = self._on_event

            def hear(event: Event, state: RunState) -> None:
                try:
                    on_event(event, state)
                except OrchestrateError as error:
                    # An error of the caller's own work is not one of the run's.
                    raise RuntimeError(repr(error)) from error

            listen_safely(store, "on_event", lambda: hear, self.note)
            # The run's start, or its resume, was recorded before a listener could be added.
            begun = last_recorded(store.run.events)
            if isinstance(begun, RunStarted | RunResumed):
                store.listeners[-1](begun, store.state)
        return lambda: None


def _result(store: Store, code: int, reporter: _Messages) -> RunResult:
    state = store.state
    return RunResult(
        run_id=store.run.id,
        folder=store.run.root,
        status=state.status,
        reason=state.reason or "",
        exit_code=code,
        messages=tuple(reporter.messages),
        outputs=outputs_document(store.run, state).get("outputs", {}),
    )


def _settings(given: RunSettings | None) -> RunSettings:
    if given is not None and not isinstance(given, RunSettings):
        raise UsageError(
            f"settings are a RunSettings, not {type(given).__name__}",
            "e.g. settings=orchestrate.RunSettings(max_retries=2)",
        )
    return given or RunSettings()


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
