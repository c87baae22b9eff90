"""What `run` and `resume` tell while they work: one line an event, on stderr and in the log."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from orchestrate.cli.output import (
    OutputClosed,
    abandon_output,
    answer,
    divert,
    end_diversion,
    finish_output,
    note,
)
from orchestrate.engine.logbook import Level, Logbook
from orchestrate.errors import ConfigError
from orchestrate.plan.nodes import Gate
from orchestrate.plan.visible import plural, visible
from orchestrate.state.events import (
    AttemptEnded,
    CallOpened,
    Event,
    GateDecided,
    GateOpened,
    ItemMoved,
    LoopOpened,
    Restarted,
    RunEnded,
    RunResumed,
    StepFinished,
    StepStarted,
    event_name,
)
from orchestrate.state.model import Ending, Frame, RunState
from orchestrate.state.runs import file_name_for

if TYPE_CHECKING:
    from orchestrate.cli.live.view import View
    from orchestrate.cli.running import Watching
    from orchestrate.cli.ticking import Ticking
    from orchestrate.cli.told import Told
    from orchestrate.state.store import Store

_FIELDS = (
    "status", "exit_code", "duration_ms", "attempts", "outcome", "model", "session_id",
    "prompt_length", "response_length", "cost_usd", "metrics",
)  # fmt: skip


class Progress:
    """Hears every event of a run and tells what matters of it."""

    def __init__(
        self, store: Told, logbook: Logbook | None, watching: Watching, foot: str = ""
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
            from orchestrate.cli.live.view import View

            self._view = View(store, foot)
            divert(self._view)
        elif watching.progress and not watching.quiet and not watching.as_json:
            from orchestrate.cli.ticking import Ticking

            self._ticking = Ticking(store, self.label)

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.close()
        if self._view is not None:
            self._view.close()
            end_diversion()

    def stopping(self) -> None:
        """Somebody wants the run to stop; called from a signal handler."""
        if self._view is not None:
            self._view.stopping()

    def hear(self, event: Event, state: RunState) -> None:
        if self._is_machine and not self._watching.as_json:
            self._machine_answer(event)
        if not self._watching.quiet and not self._watching.as_json:
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
            or "response_length" not in event.result
        ):
            return
        path = self._store.run.logs / f"{file_name_for(event.node)}.answer.txt"
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            text = str(event.result.get("output", ""))
        if self._is_read:
            try:
                answer(shown_answer(text) + "\n")
                finish_output()
            except (OutputClosed, ConfigError):
                # A pager that was quit, or a terminal that was closed, must not stop work that
                # costs money; the answers are in the run's logs.
                self._is_read = False
                abandon_output()

    def _lines(self, event: Event, state: RunState) -> list[str]:
        from orchestrate.cli.telling import machine_lines, plain_lines, stays

        if self._is_machine:
            return machine_lines(event, state, self._store.index, self._watching)
        if self._view is not None and not stays(event):
            return []
        return plain_lines(event, self)

    def label(self, frame_key: str, node: str) -> str:
        """`[2/5] ProcessData`, or `[2/5] Loop[3]/Step` inside a loop."""
        outer = frame_key.partition("/")[0].partition("[")[0].partition("(")[0].partition(":")[0]
        number = self._numbers.get(outer if frame_key else node)
        place = f"[{number}/{self._total}] " if number is not None else ""
        return visible(place + _path_of(frame_key, node))

    def _log(self, event: Event, state: RunState, logbook: Logbook) -> None:
        if self._is_machine:
            from orchestrate.cli.telling import machine_log

            for machine_level, words, about in machine_log(event, state, self._store.index):
                logbook.write(machine_level, words, about)
            return
        level: Level = "debug" if isinstance(event, StepStarted) else "info"
        fields: dict[str, Any] = {}
        match event:
            case StepFinished() | AttemptEnded():
                fields = {name: event.result[name] for name in _FIELDS if name in event.result}
                error = event.result.get("error")
                if error:
                    fields["error"] = error.get("message")
                    level = "warn"
            case RunEnded():
                fields = {"status": event.status, "reason": event.reason, "code": event.code}
            case LoopOpened():
                fields = {"items": len(event.items)}
            case GateOpened() | GateDecided() | CallOpened() | Restarted() | RunResumed():
                pass
            case ItemMoved():
                fields = dict(event.lifecycle)
            case _:
                pass
        if not logbook.wants(level):
            return
        node = getattr(event, "node", None)
        if node is not None:
            fields = {"step": _path_of(getattr(event, "frame", ""), node), **fields}
        logbook.write(level, event_name(event), fields)


def _path_of(frame_key: str, node: str) -> str:
    """`Loop[3]/Step`: what `logs` and `status` take; the step's id names its loops as well."""
    name = node.rpartition("/")[2].removesuffix("[]")
    return f"{frame_key}/{name}" if frame_key else name


def shown_answer(text: str) -> str:
    """An agent's words: as they are for a program that reads them, made safe for a terminal."""
    if not sys.stdout.isatty():
        return text
    return "\n".join(visible(line) for line in text.split("\n"))


def summary(store: Store) -> dict[str, Any]:
    """What `run --json` and `resume --json` answer."""
    state = store.state
    ending = state.ending
    return {
        "run_id": state.run_id,
        "run_root": str(store.run.root),
        "dialect": state.dialect,
        "workflow_file": state.definition,
        "status": state.status,
        "reason": state.reason,
        "exit_code": ending.code if ending is not None else 0,
        "steps": _step_statuses(state.root),
        **({"costs": costs_of(state)} if state.costs.turns else {}),
    }


def _step_statuses(root: Frame) -> dict[str, Any]:
    steps: dict[str, Any] = {
        name: {key: result[key] for key in ("status", "exit_code", "duration_ms") if key in result}
        for name, result in root.steps.items()
    }
    for loop in root.loops.values():
        steps[loop.name] = {
            "items": len(loop.items),
            "completed": len(loop.done),
            "failed": len(loop.failed),
        }
    return steps


def costs_of(state: RunState) -> dict[str, Any]:
    costs = state.costs
    return {
        # What nobody reported is unknown, not nothing.
        "cost_usd": costs.cost_usd if costs.unreported < costs.turns else None,
        "input_tokens": costs.input_tokens,
        "output_tokens": costs.output_tokens,
        "turns": costs.turns,
        "unreported": costs.unreported,
    }


def last_words(store: Told, ending: Ending) -> str:
    """How the run ended, and what to do now."""
    run_id = store.run.id
    state = store.state
    lines: list[str] = []
    match ending.status:
        case "completed":
            lines.append(f"run {run_id} completed" + _because(ending))
        case "failed":
            lines.append(f"run {run_id} failed: {visible(ending.reason)}")
            lines += _after_failure(store, ending)
        case "paused" if ending.code == 6:
            lines.append(f"run {run_id} {visible(ending.reason)}")
            lines.append(f"  approve: orchestrate approve {run_id}")
            lines.append(f"  deny:    orchestrate deny {run_id}")
        case _:
            lines.append(f"run {run_id} stopped: {visible(ending.reason)}")
            lines.append(f"  go on:  orchestrate resume {run_id}")
    if state.costs.turns:
        lines.append("  " + cost_line(state))
    return "\n".join(lines) + "\n"


def _after_failure(store: Told, ending: Ending) -> list[str]:
    """What to look at and how to go on; nothing that would only say that it cannot."""
    from orchestrate.cli.advising import resume_flags, stopped_at, what_to_look_at

    run_id, state = store.run.id, store.state
    is_denied = any(gate["status"] == "denied" for gate in state.approvals)
    stopped = stopped_at(state, store.index)
    look = what_to_look_at(run_id, stopped, state.root.steps, is_denied=is_denied)
    lines = []
    if look is not None:
        lines.append(f"  look:   {visible(shlex.join(['orchestrate', 'logs', *look]))}")
    flags = resume_flags(
        state.dialect, ending.reason, ending.code, state.root.visits, state.steps_run
    )
    is_at_end = state.root.here is None and state.restart is None
    if not is_denied and not is_at_end and flags is not None:
        lines.append(f"  go on:  {' '.join(['orchestrate', 'resume', run_id, *flags])}")
    return lines


def _because(ending: Ending) -> str:
    from orchestrate.cli.telling import END

    return "" if ending.reason in ("completed", END, "") else f": {visible(ending.reason)}"


def cost_line(state: RunState) -> str:
    costs = state.costs
    calls = plural(costs.turns, "agent call")
    if costs.unreported == costs.turns:
        return f"cost: unknown ({calls}, none reported it)"
    text = f"cost: ${costs.cost_usd:.4f} in {calls}"
    return text + (f"; {costs.unreported} did not report theirs" if costs.unreported else "")


def first_words(run_id: str, definition: str, *, is_resumed: bool) -> str:
    """Said before anything starts, so that the run can be found whatever happens."""
    verb = "resumes" if is_resumed else "starts"
    return f"run {run_id} {verb} {visible(definition)} (process {os.getpid()})\n"
