"""What `run` and `resume` tell while they work: a line an event, or a moving picture."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from orchestrate.errors import ConfigError
from orchestrate.plan.nodes import OK
from orchestrate.plan.visible import clip, visible, visible_lines
from orchestrate.show.event_lines import machine_lines, machine_step, plain_lines, stays
from orchestrate.show.heartbeat import Heartbeat, interval
from orchestrate.show.live.view import View
from orchestrate.show.narrator import Narrator
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
from orchestrate.show.ticking import Ticking
from orchestrate.show.transcript_text import last_turn_lines
from orchestrate.state import events as on
from orchestrate.state.address import FrameKey, Item, log_name_in, name_of_node
from orchestrate.state.events import Event, attempt_of
from orchestrate.state.model import RunState
from orchestrate.view.item_names import item_name
from orchestrate.view.messages import Messages
from orchestrate.view.step_logs import StepLog

if TYPE_CHECKING:
    from orchestrate.show.live.view import View
    from orchestrate.transcript import TranscriptOf
    from orchestrate.view.display_options import DisplayOptions
    from orchestrate.view.watched_run import WatchedRun

_LONGEST_ITEM = 60


# Of the transcript of a turn that has failed.
_LAST_LINES = 5


class Progress:
    """Hears every event of a run and tells what matters of it."""

    def __init__(
        self,
        store: WatchedRun,
        display: DisplayOptions,
        transcript_of: TranscriptOf,
        foot: str = "",
    ) -> None:
        self._store = store
        self._display = display
        plan = store.index.plan(store.state.root.plan)
        steps = [node.id for node in plan.blocks[0].nodes if node.is_step]
        self._numbers = {node_id: number for number, node_id in enumerate(steps, 1)}
        for node in plan.blocks[0].nodes:
            if node.part_of is not None:
                self._numbers[node.id] = self._numbers[node.part_of]
        self._total = len(steps)
        self._is_machine = plan.dialect == "machine"
        is_told = self._is_machine and display.verbose
        self._told = Messages.taken_up(store.run, store.state) if is_told else None
        self._is_read = True
        self._ticking: Ticking | None = None
        self._heartbeat: Heartbeat | None = None
        self._view: View | None = None
        if display.live:
            self._view = View(store, transcript_of, foot)
            divert(self._view)
        elif display.progress and not display.quiet and not display.as_json:
            self._ticking = Ticking(store, self.label)
        # Only for a run of our own that is not drawn on a terminal.
        is_drawn = display.live or self._ticking is not None or display.quiet or display.as_json
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        every_s = 0.0 if is_drawn or is_terminal or foot else interval()
        self._transcript_of = transcript_of
        self._narrator: Narrator | None = None
        if display.verbose and not is_drawn:
            holds = self._is_machine and self._answers
            self._narrator = Narrator(store, self.label, transcript_of, holds_answers=holds)
        if every_s:
            self._heartbeat = Heartbeat(store, self.label, transcript_of, every_s)

    def close(self) -> None:
        if self._ticking is not None:
            self._ticking.close()
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._narrator is not None:
            self._narrator.close()
        if self._view is not None:
            self._view.close()
            end_diversion()

    def stopping(self) -> None:
        """A stop was requested; called from a signal handler."""
        if self._view is not None:
            self._view.stopping()

    def hear(self, event: Event, state: RunState) -> None:
        messages = [] if self._told is None else self._told.hear(event)
        if self._narrator is not None and isinstance(event, on.StepFinished | on.AttemptEnded):
            self._narrator.ends(self.label(event.frame, event.node), event.result)
        if self._is_machine and self._answers:
            self._machine_answer(event)
        is_told = not self._display.quiet or _has_failed(event)
        if is_told and not self._display.as_json:
            lines = self._lines(event, messages, state)
            if lines and self._ticking is not None:
                self._ticking.clear()
            for line in lines:
                note(line + "\n")
        if self._view is not None:
            self._view.hear(event, state)

    @property
    def _answers(self) -> bool:
        """Do an agent's answers go to stdout?"""
        return not (self._display.as_json or self._display.quiet or self._display.events)

    def _machine_answer(self, event: Event) -> None:
        """A §9: the agent's response for each step goes to stdout, whole and at once."""
        if (
            not isinstance(event, on.StepFinished | on.AttemptEnded)
            or event.result.response_length is None
        ):
            return
        path = self._store.run.logs / f"{log_name_in(event.result)}.answer.txt"
        try:
            said = path.read_bytes()
        except OSError:
            said = event.result.output.encode("utf-8", "replace")
        if self._is_read:
            if not self._display.verbose:
                note(f"{_heading(event)}\n")
            try:
                if self._display.raw and not sys.stdout.isatty():
                    answer_bytes(said + b"\n")
                else:
                    answer(visible_lines(said.decode("utf-8", "replace")) + "\n")
                finish_output()
            except (OutputClosed, ConfigError) as error:
                # A pager that was quit, or a terminal that was closed, must not stop work that
                # costs money; the answers are in the run's logs.
                self._is_read = False
                give_up_output(error)

    def _lines(self, event: Event, messages: list[dict[str, Any]], state: RunState) -> list[str]:
        if self._is_machine:
            lines = machine_lines(event, messages, state, self._store.index, self._display)
        elif self._view is not None and not stays(event):
            return []
        else:
            lines = plain_lines(event, self, _item_of(event, state))
        return lines + self._end_of_turn(event)

    def _end_of_turn(self, event: Event) -> list[str]:
        """What the agent of a step that has failed did last."""
        if self._narrator is not None or not isinstance(event, on.StepFinished):
            return []
        result = event.result
        if result.status != "failed":
            return []
        entry = StepLog(attempt_of(event), result)
        lines = last_turn_lines(self._store.run, entry, self._transcript_of, _LAST_LINES)
        return [f"    | {line}" for line in lines if line.lstrip("-! ") not in result.message]

    def label(self, frame_key: str, node: str) -> str:
        """`[2/5] ProcessData`, or `[2/5] Loop[3]/Step` inside a loop."""
        at = FrameKey.parse(frame_key).step(name_of_node(node))
        number = self._numbers.get(at.outermost if at.frame.parts else node)
        place = f"[{number}/{self._total}] " if number is not None else ""
        return visible(place + at.shown)


def _item_of(event: Event, state: RunState) -> str:
    """The value of the item that starts or has trouble: `Loop[3]` alone tells a reader little."""
    if not isinstance(event, on.StepStarted | on.CallOpened | on.AttemptEnded | on.StepFinished):
        return ""
    if isinstance(event, on.StepFinished) and not _has_failed(event):
        return ""
    key = FrameKey.parse(event.frame)
    item = key.parts[-1] if key.parts else None
    if not isinstance(item, Item) or item.index is None:
        return ""
    # The frame of an item that has failed may be gone by now; its loop is not.
    outer = state.frames.get(FrameKey(key.restart, key.parts[:-1], key.edit).text)
    for loop in () if outer is None else outer.loops.values():
        if loop.name == item.loop and loop.items[item.index] is not None:
            return clip(visible(item_name(loop.items[item.index])), _LONGEST_ITEM)
    return ""


def _has_failed(event: Event) -> bool:
    """Is it an error, which `--quiet` tells, too?"""
    return isinstance(event, on.StepFinished) and event.result.status == "failed"


def _heading(event: on.StepFinished | on.AttemptEnded) -> str:
    """Whose answer follows, and what came of it."""
    visit = f", visit {event.visit}" if event.visit > 1 else ""
    # The agents of a recipe that a machine calls are asked for none.
    is_plain = isinstance(event, on.StepFinished) and event.label == OK
    outcome = event.result.outcome or ("answered" if is_plain else "no readable outcome")
    reused = " (reused)" if event.result.reused else ""
    return f"-- {machine_step(event)}{visit}: {visible(outcome)}{reused}"
