"""What a run has begun since a place of its journals: it does not count any more after a rewind to
that place, nor in a fork that begins with the files as they were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrate.state.address import name_of_node
from orchestrate.state.earlier import Earlier
from orchestrate.state.events import GateOpened, StepStarted
from orchestrate.state.lineage import Place
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import FileHistory


def begun_since(
    journals: Iterable[Path], since: Place, *, only_with_files: bool = False
) -> tuple[tuple[str, ...], ...]:
    """The paths of the results whose question was put there or later; `only_with_files` leaves out
    those that, by the checkpoints around them, have changed no file."""
    earlier = Earlier()
    goes: dict[tuple[str, ...], bool] = {}
    for number, path in enumerate(journals):
        events = [recorded.event for recorded in read_events(path)]
        spans = FileHistory(events).spans
        for position, event in enumerate(events):
            earlier.add(event)
            match event:
                case StepStarted(origin=None):
                    span = spans[event.frame, event.node, event.visit]
                    is_later = (number, span.position) >= since
                    is_later &= not only_with_files or span.may_have_changed_files
                case GateOpened(reused=""):
                    is_later = (number, position) >= since and not only_with_files
                case _:
                    continue
            step = earlier.step_path(event.frame, name_of_node(event.node), event.visit)
            goes[step] = is_later
    return tuple(step for step, is_gone in goes.items() if is_gone)
