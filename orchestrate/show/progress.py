"""What `run` and `resume` tell while they work: one line an event, on stderr and in the log."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from orchestrate.engine.logbook import Level, Logbook
from orchestrate.errors import ConfigError
from orchestrate.exits import DONE, PARKED, Ending
from orchestrate.plan.nodes import Gate
from orchestrate.plan.visible import visible, visible_lines
from orchestrate.show.output import (
    OutputClosed,
    answer,
    answer_bytes,
    divert,
    end_diversion,
    finish_output,
    give_up_output,
    note,
)
from orchestrate.show.spending import cost_words, token_words
from orchestrate.state.address import FrameKey, log_name_in, name_of_node, shown_path
from orchestrate.state.cancelling import is_cancelling
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
    event_name,
)
from orchestrate.state.model import Frame, RunState
from orchestrate.view.advice import (
    Reached,
    as_started_flag,
    failed_in,
    resume_flags,
    stopped_at,
    values_wanted,
    what_to_look_at,
)
from orchestrate.view.source_files import shown_definition
from orchestrate.view.status_document import last_outcome

if TYPE_CHECKING:
    from orchestrate.show.heartbeat import Heartbeat
    from orchestrate.show.live.view import View
    from orchestrate.show.ticking import Ticking
    from orchestrate.state.store import Store
    from orchestrate.view.place import Place
    from orchestrate.view.watched_run import WatchedRun
    from orchestrate.view.watching import Watching

_FIELDS = (
    "status", "exit_code", "duration_ms", "attempts", "outcome", "model", "model_requested",
    "session_id", "prompt_length", "response_length", "cost_usd", "input_tokens", "output_tokens",
    "metrics",
)  # fmt: skip


class Progress:
    """Hears every event of a run and tells what matters of it."""

    def __init__(
        self, store: WatchedRun, logbook: Logbook | None, watching: Watching, foot: str = ""
    ) -> None:
        self._store = store
        self._logbook = logbook
        self._watching = watching
        plan = store.index.plan(store.state.root.plan)
        steps = [node.id for node in plan.blocks[0].nodes if not isinstance(node.op, Gate)]
        self._numbers = {node_id: number for number, node_id in enumerate(steps, 1)}
        self._total = len(steps)
        self._is_machine = plan.dialect == "machine"
        self._is_read = True
        self._ticking: Ticking | None = None
        self._view: View | None = None
        if watching.live:
            from orchestrate.show.live.view import View

            self._view = View(store, foot)
            divert(self._view)
        elif watching.progress and not watching.quiet and not watching.as_json:
            from orchestrate.show.ticking import Ticking

            self._ticking = Ticking(store, self.label)
        self._heartbeat = self._start_heartbeat(store)

    def _start_heartbeat(self, store: WatchedRun) -> Heartbeat | None:
        """Only for a run of our own that nobody draws on a terminal."""
        watching = self._watching
        is_drawn = watching.live or self._ticking is not None or watching.quiet or watching.as_json
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        if is_drawn or is_terminal or self._logbook is None:
            return None
        from orchestrate.show.heartbeat import Heartbeat, interval

        every_s = interval()
        return Heartbeat(store, self.label, every_s) if every_s else None

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.close()
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._view is not None:
            self._view.close()
            end_diversion()

    def stopping(self) -> None:
        """Somebody wants the run to stop; called from a signal handler."""
        if self._view is not None:
            self._view.stopping()

    def hear(self, event: Event, state: RunState) -> None:
        is_answered = not (self._watching.as_json or self._watching.quiet or self._watching.events)
        if self._is_machine and is_answered:
            self._machine_answer(event)
        is_told = not self._watching.quiet or _has_failed(event)
        if is_told and not self._watching.as_json:
            lines = self._lines(event, state)
            if lines and self._ticking is not None:
                self._ticking.clear()
            for line in lines:
                note(line + "\n")
        if self._view is not None:
            self._view.hear(event, state)
        if self._logbook is not None:
            self._log(event, state, self._logbook)

    def _machine_answer(self, event: Event) -> None:
        """A §9: the agent's response for each step goes to stdout, whole and at once."""
        if (
            not isinstance(event, StepFinished | AttemptEnded)
            or event.result.response_length is None
        ):
            return
        path = self._store.run.logs / f"{log_name_in(event.result)}.answer.txt"
        try:
            said = path.read_bytes()
        except OSError:
            said = event.result.output.encode("utf-8", "replace")
        if self._is_read:
            if not self._watching.verbose:
                note(f"{_heading(event)}\n")
            try:
                if self._watching.raw and not sys.stdout.isatty():
                    answer_bytes(said + b"\n")
                else:
                    answer(visible_lines(said.decode("utf-8", "replace")) + "\n")
                finish_output()
            except (OutputClosed, ConfigError) as error:
                # A pager that was quit, or a terminal that was closed, must not stop work that
                # costs money; the answers are in the run's logs.
                self._is_read = False
                give_up_output(error)

    def _lines(self, event: Event, state: RunState) -> list[str]:
        from orchestrate.show.event_lines import machine_lines, plain_lines, stays

        if self._is_machine:
            return machine_lines(event, state, self._store.index, self._watching)
        if self._view is not None and not stays(event):
            return []
        return plain_lines(event, self)

    def label(self, frame_key: str, node: str) -> str:
        """`[2/5] ProcessData`, or `[2/5] Loop[3]/Step` inside a loop."""
        at = FrameKey.parse(frame_key).step(name_of_node(node))
        number = self._numbers.get(at.outermost if at.frame.parts else node)
        place = f"[{number}/{self._total}] " if number is not None else ""
        return visible(place + at.shown)

    def _log(self, event: Event, state: RunState, logbook: Logbook) -> None:
        if self._is_machine:
            from orchestrate.show.event_lines import machine_log

            for machine_level, words, about in machine_log(event, state, self._store.index):
                logbook.write(machine_level, words, about)
            return
        level: Level = "debug" if isinstance(event, StepStarted) else "info"
        fields: dict[str, Any] = {}
        match event:
            case StepFinished() | AttemptEnded():
                result = event.result
                given = result.only(*_FIELDS).to_json()
                fields = {name: value for name, value in given.items() if value is not None}
                if result.error is not None:
                    fields["error"], level = result.message, "warn"
                if denied := denial_words(result.denials):
                    fields["denied"], level = denied, "warn"
            case RunEnded():
                fields = {"status": event.status, "reason": event.reason, "code": event.code}
            case LoopOpened():
                fields = {"items": len(event.items)}
            case ItemMoved():
                fields = dict(event.lifecycle)
            case CallExpired():
                fields, level = {"timeout_s": event.timeout_s}, "warn"
            case GateOpened() | GateDecided() | CallOpened() | Restarted() | StepStarted():
                pass
            case RunStarted() | RunResumed() | SessionSeen() | SessionChosen() | Gap():
                pass
            case ItemMoving() | ItemStopped():
                pass
        if not logbook.wants(level):
            return
        node = getattr(event, "node", None)
        if node is not None:
            fields = {"step": shown_path(getattr(event, "frame", ""), node), **fields}
        logbook.write(level, event_name(event), fields)


def _has_failed(event: Event) -> bool:
    """Is it an error, which `--quiet` tells, too?"""
    return isinstance(event, StepFinished) and event.result.status == "failed"


def _heading(event: StepFinished | AttemptEnded) -> str:
    """Whose answer follows, and what came of it."""
    visit = f", visit {event.visit}" if event.visit > 1 else ""
    outcome = event.result.outcome or "no readable outcome"
    return f"-- {visible(event.node)}{visit}: {visible(outcome)}"


# What a step says in `--json`, and what it is called there.
_STATUS_FIELDS = {
    "status": "status",
    "exit_code": "exit_code",
    "duration_ms": "duration_ms",
    "outcome": "outcome",
    "outcome_description": "otherDescription",
}


def summary(store: Store) -> dict[str, Any]:
    """What `run --json` and `resume --json` answer."""
    state = store.state
    ending = state.ending
    gates = state.pending
    return {
        "run_id": state.run_id,
        "run_root": str(store.run.root),
        "dialect": state.dialect,
        "workflow_file": state.definition,
        "status": state.status,
        "reason": state.reason,
        "exit_code": ending.code if ending is not None else DONE,
        **last_outcome(state),
        # The gate that a parked run waits at; all of them where stages wait side by side.
        "stage": gates[0].stage if gates else None,
        "approvals": [gate.question for gate in gates],
        "steps": _step_statuses(state.root),
        **({"costs": state.costs.to_json()} if state.costs.turns else {}),
        **({"denials": [denial.to_json() for denial in state.denials]} if state.denials else {}),
    }


def _step_statuses(root: Frame) -> dict[str, Any]:
    steps: dict[str, Any] = {
        name: {
            shown: getattr(result, key) for key, shown in _STATUS_FIELDS.items() if result.has(key)
        }
        for name, result in root.steps.items()
    }
    for loop in root.loops.values():
        steps[loop.name] = {
            "items": len(loop.items),
            "completed": len(loop.done),
            "failed": len(loop.failed),
        }
    return steps


def last_words(store: WatchedRun, ending: Ending, place: Place) -> str:
    """How the run ended, and what to do now."""

    run_id = store.run.id
    state = store.state
    lines: list[str] = []
    match ending.status:
        case "completed":
            because = f": {visible(ending.reason)}" if ending.tells else ""
            lines.append(f"run {run_id} completed{because}")
        case "failed":
            lines.append(f"run {run_id} failed: {visible(ending.reason)}")
            lines += _after_failure(store, ending, place)
        case "paused" if ending.code == PARKED:
            lines += _waiting_for_a_person(store, ending, place)
        case "paused" if is_cancelling(store.run):
            lines.append(f"run {run_id} is being cancelled for good")
        case _:
            lines.append(f"run {run_id} stopped: {visible(ending.reason)}")
            more = as_started_flag(store.run, store.state)
            lines.append(f"  go on:  {visible(place.command('resume', run_id, *more))}")
    if state.costs.turns:
        lines.append("  " + cost_line(state))
    if state.denials:
        # Last of all: a run whose agents were refused their tools may have done nothing.
        words = visible(denial_words(state.denials))
        lines.append(f"  denied: {words}; see {visible(place.command('status', run_id))}")
    return "\n".join(lines) + "\n"


def _waiting_for_a_person(store: WatchedRun, ending: Ending, place: Place) -> list[str]:
    """For a decision at a gate, or because attempts of a step were lost."""

    run_id, state = store.run.id, store.state
    if not stopped_at(state):
        lines = [f"run {run_id} {visible(ending.reason)}"]
    else:
        lines = [f"run {run_id} waits for a person: {visible(ending.reason)}"]
        lines += _after_failure(store, ending, place)
        if not state.pending:
            return lines
    for gate in state.pending:
        lines += [f"  | {visible(line)}" for line in gate.prompt.splitlines()]
    lines.append(f"  approve: {visible(place.command('approve', run_id))}")
    lines.append(f"  deny:    {visible(place.command('deny', run_id))}")
    return lines


def _after_failure(store: WatchedRun, ending: Ending, place: Place) -> list[str]:
    """What to look at and how to go on; nothing that would only say that it cannot."""

    run_id, state = store.run.id, store.state
    is_denied = any(gate.status == "denied" for gate in state.approvals)
    stopped = stopped_at(state)
    look = what_to_look_at(run_id, stopped, state.root.steps, is_denied=is_denied)
    lines = []
    if look is not None:
        lines.append(f"  look:   {visible(place.command('logs', *look))}")
    flags = resume_flags(ending, Reached.of(state))
    is_at_end = state.root.here is None and state.restart is None
    if not is_denied and not is_at_end and flags is not None:
        flags += (*values_wanted(failed_in(state)), *as_started_flag(store.run, state))
        lines.append(f"  go on:  {visible(place.command('resume', run_id, *flags))}")
    return lines


def cost_line(state: RunState) -> str:
    tokens = token_words(state.costs)
    return f"cost: {cost_words(state.costs)}" + (f"; tokens: {tokens}" if tokens else "")


def first_words(run_id: str, definition: str, *, is_resumed: bool) -> str:
    """Said before anything starts, so that the run can be found whatever happens."""
    verb = "resumes" if is_resumed else "starts"
    return f"run {run_id} {verb} {shown_definition(definition)} (process {os.getpid()})\n"
