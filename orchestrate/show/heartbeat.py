"""Without a terminal: a line a minute about each program at work, so that no log stays silent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.plan.nodes import Ask, Run
from orchestrate.plan.visible import clip, plural
from orchestrate.record import record
from orchestrate.show.live.picture import RunningProgram
from orchestrate.show.live.tails import Tail, Tails
from orchestrate.show.output import note
from orchestrate.show.recurring import Recurring
from orchestrate.state.address import log_name_in
from orchestrate.state.model import Index, RunState, frames_below
from orchestrate.state.times import duration

if TYPE_CHECKING:
    from orchestrate.transcript import TranscriptOf
    from orchestrate.view.watched_run import WatchedRun

VARIABLE = "ORCHESTRATE_HEARTBEAT"
_EVERY_S = 60.0
# Of a wide parallel loop; the others are counted.
_MOST_LINES = 5
_LONGEST_WORDS = 80


@record
class AtWork:
    """A program that runs, and what the step is called."""

    label: str
    program: RunningProgram


def interval() -> float:
    """Seconds between two lines; 0 turns them off."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, "") or _EVERY_S))
    except ValueError:
        return _EVERY_S


class Heartbeat:
    """Tells once an interval what is at work, until it is closed."""

    def __init__(
        self,
        store: WatchedRun,
        label: Callable[[str, str], str],
        transcript_of: TranscriptOf,
        every_s: float,
    ) -> None:
        self._store = store
        self._label = label
        self._every_s = every_s
        self._tails = Tails(store.run.logs, transcript_of)
        self._thread = Recurring("heartbeat", every_s, self._beat)
        self.close = self._thread.close

    def _beat(self) -> None:
        at_work, spent = self._store.look(self._see)
        now = time.time()
        # Those that have just begun had a line of their own.
        due = [one for one in at_work if now - one.program.began >= self._every_s * 0.9]
        for one in due[:_MOST_LINES]:
            note(line_about(one, self._tails.of(one.program, now), spent, now) + "\n")
        if len(due) > _MOST_LINES:
            note(f"  … and {plural(len(due) - _MOST_LINES, 'more program')} at work\n")
        self._tails.forget_all_but([one.program for one in due])

    def _see(self, state: RunState) -> tuple[list[AtWork], str]:
        return programs_in(state, self._store.index, self._label), spent_so_far(state)


def programs_in(state: RunState, index: Index, label: Callable[[str, str], str]) -> list[AtWork]:
    """The programs that run now, as far as the state knows."""
    found = []
    for frame in frames_below(state.root):
        here = frame.here
        if here is None or here.phase != "running":
            continue
        node = index.here(frame).node
        about = frame.steps.get(node.name)
        if not isinstance(node.op, Ask | Run) or about is None:
            continue
        backend = about.backend if isinstance(node.op, Ask) else ""
        began = here.attempt_since or here.since
        program = RunningProgram(log_name_in(about), backend, began)
        found.append(AtWork(label(frame.key, here.node), program))
    return found


def spent_so_far(state: RunState) -> str:
    """What the run's agents have reported: `$0.1200 or more, 12,345 tokens`; '' if nothing."""
    costs = state.costs
    tokens = (costs.input_tokens or 0) + (costs.output_tokens or 0)
    more = " or more" if costs.unreported else ""
    words = [] if costs.cost_usd is None else [f"${costs.cost_usd:.4f}{more}"]
    if tokens:
        words.append(f"{tokens:,} tokens")
    return ", ".join(words)


def line_about(one: AtWork, tail: Tail, spent: str, now: float) -> str:
    """`[2/5] Review: at work for 2m00s; 12s ago: "Reading src/…"; the run so far: $0.1200`."""
    parts = [f"{one.label}: at work for {duration((now - one.program.began) * 1000)}"]
    if tail.activity == "tool":
        parts.append("a tool runs")
    silent = "" if tail.silent_s is None else duration(tail.silent_s * 1000)
    if silent and not tail.has_spoken:
        parts.append("has said nothing yet")
    elif silent:
        words = f': "{clip(tail.words, _LONGEST_WORDS)}"' if tail.words else ""
        parts.append(f"silent for {silent}{words}")
    if spent:
        parts.append(f"the run so far: {spent}")
    return "; ".join(parts)
