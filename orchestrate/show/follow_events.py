"""Follows a run whose plan cannot be read: its events are told one by one."""

from __future__ import annotations

from collections.abc import Callable

from orchestrate.show.event_lines import Unnumbered, plain_lines
from orchestrate.show.output import note
from orchestrate.state.runs import Run
from orchestrate.view.follower import looks, tail_from_now


def follow_events(run: Run, rest: Callable[[float], object], is_over: Callable[[], bool]) -> None:
    """Until no process works on the run, or `is_over` says so; `rest` waits between two looks."""
    tail = tail_from_now(run)
    for _ in looks(run, rest):
        for recorded in tail.news():
            for line in plain_lines(recorded.event, Unnumbered()):
                note(line + "\n")
        if is_over():
            break
