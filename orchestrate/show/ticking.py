"""`--progress`: how long the running steps have been at it, told again and again (C)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.plan.visible import clip, visible
from orchestrate.show.output import note
from orchestrate.show.recurring import Recurring
from orchestrate.state.model import Frame, RunState, frames_below
from orchestrate.view.item_names import item_name

if TYPE_CHECKING:
    from orchestrate.view.watched_run import WatchedRun

# A terminal's line is drawn over; a log would only grow.
_EVERY_S = 1.0
_EVERY_S_IN_A_LOG = 15.0
_WIDTH = 100


class Ticking:
    """Tells what runs again and again, until it is closed."""

    def __init__(self, store: WatchedRun, label: Callable[[str, str], str]) -> None:
        self._store = store
        self._label = label
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        every_s = _EVERY_S if self._is_terminal else _EVERY_S_IN_A_LOG
        self._thread = Recurring("progress", every_s, self._tick)

    def close(self) -> None:
        self._thread.close()
        self.clear()

    def clear(self) -> None:
        """Make room for a line that stays."""
        if self._is_terminal:
            note("\r\x1b[K")

    def _tick(self) -> None:
        lines = self._store.look(self._lines)
        if self._is_terminal:
            note("\r\x1b[K" + clip("  ".join(lines[:2]), _WIDTH))
        else:
            note("".join(f"{line}\n" for line in lines))

    def _lines(self, state: RunState) -> list[str]:
        return running_lines(state, self._label, time.time())


def running_lines(state: RunState, label: Callable[[str, str], str], now: float) -> list[str]:
    """`[2/5] ProcessData: Running (15s)...`, and for a loop which item it is at."""
    lines: list[str] = []
    for frame in frames_below(state.root):
        here = frame.here
        if here is None or here.phase not in ("running", "resting"):
            continue
        waited = max(0, round(now - (here.attempt_since or here.since or now)))
        word = "Running" if here.phase == "running" else "Waiting to try again"
        lines.append(f"{label(frame.key, here.node)}: {word} ({waited}s)...")
        if frame.is_iteration:
            lines.append(_item_line(frame))
    return lines


def _item_line(frame: Frame) -> str:
    number = (frame.index or 0) + 1
    if not frame.variable:
        return f"  └─ round {number} of at most {frame.total}"
    shown = clip(visible(item_name(frame.item)), 60)
    return f"  └─ for_each: [{number}/{frame.total}] Processing {shown}"
