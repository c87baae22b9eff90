"""An agent that resolves conflicts has failed while it leaves a marker, whatever it says."""

from __future__ import annotations

import os
import stat

from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.program_result import unfit
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import OK
from orchestrate.plan.visible import visible
from orchestrate.regex import regex
from orchestrate.state.events import Event, StepFinished

# As git begins and ends what is in conflict.
_MARKER = regex(rb"(?:<{7}|>{7}) ")


def unless_marked(step: Step, event: Event) -> Event:
    """The event, or the failure that it is."""
    if not isinstance(event, StepFinished) or event.label != OK:
        return event
    root = step.rt.workspace.root
    left = [name for name in step.frame.conflicts if _has_marker(os.path.join(root, name))]
    if not left:
        return event
    fault = StepFault(f"conflict markers are left in {', '.join(map(visible, left))}")
    return unfit(step, fault, event.result.without("status", "exit_code"))


def _has_marker(path: str) -> bool:
    """A file that was removed, or became a link, has none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(handle, "rb") as file:
        return stat.S_ISREG(os.fstat(handle).st_mode) and any(map(_MARKER.match, file))
