"""The turns of agents that a run has had, read on from where they were when asked again.

A page that shows a session asks every second. A run may have 100,000 events by then, and most are
not about agents.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.state.events import AttemptEnded, StepFinished, attempt_of
from orchestrate.state.journal import end_of
from orchestrate.state.recorded import read_events
from orchestrate.view.step_logs import StepLog

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

# What is written in the end of an agent's turn.
_OF_AGENTS = (b'"agent":',)
_MOST_KEPT = 100


@record
class _Kept:
    """What a journal had up to an event. Another file has another number, or is shorter."""

    number: int = 0
    size: int = 0
    seq: int = 0
    turns: tuple[StepLog, ...] = ()


_NOTHING = _Kept()
_kept: OrderedDict[str, _Kept] = OrderedDict()
_guard = Lock()


def turns_of(run: Run) -> tuple[StepLog, ...]:
    """Every turn that has ended, oldest first; up to damage, if there is any."""
    name = str(run.root)
    with _guard:
        known = _kept.get(name, _NOTHING)
    try:
        found = os.stat(run.events)
        if found.st_ino != known.number or found.st_size < known.size:
            known = _NOTHING
        if found.st_size != known.size:
            known = _read_on(run, known, found)
    except (OSError, OrchestrateError):
        return known.turns
    with _guard:
        _kept[name] = known
        _kept.move_to_end(name)
        if len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return known.turns


def _read_on(run: Run, known: _Kept, found: os.stat_result) -> _Kept:
    last = end_of(run.events)
    turns = list(known.turns)
    with suppress(OrchestrateError):
        for recorded in read_events(run.events, known.seq, _OF_AGENTS):
            event = recorded.event
            if recorded.seq > last:
                break  # it has come meanwhile, and is for the next time
            if isinstance(event, AttemptEnded | StepFinished) and event.result.agent is not None:
                why = event.why if isinstance(event, AttemptEnded) else ""
                turns.append(StepLog(attempt_of(event), event.result, why))
    return _Kept(found.st_ino, found.st_size, last, (*turns,))
