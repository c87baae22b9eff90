"""Steps whose next attempt is not due yet, in lines."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrate.plan.visible import visible
from orchestrate.state.address import shown_path
from orchestrate.state.model import Index, RunState, frames_below
from orchestrate.state.result import StepResult
from orchestrate.state.times import local_time, timestamp
from orchestrate.view.event_words import retry_number, retry_reason


def resting_lines(state: RunState, index: Index, now: float) -> Iterator[str]:
    for frame in frames_below(state.root):
        here = frame.here
        if here is None or here.phase != "resting" or here.rest_until <= now:
            continue
        name = index.here(frame).node.name
        result = frame.steps.get(name, StepResult())
        why = retry_reason(result).removeprefix(": ")
        yield (
            f"{visible(shown_path(frame.key, name))} waits until "
            f"{local_time(timestamp(here.rest_until))} for {retry_number(result)}"
            f"{f' ({visible(why)})' if why else ''}"
        )
