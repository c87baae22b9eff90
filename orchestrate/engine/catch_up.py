"""Records what has happened to a run since its orchestrator was killed, and starts nothing.

Programs may have ended, and the keeper may have begun the next one: an edit that did not know would
have them run a second time.
"""

from __future__ import annotations

from orchestrate.engine.keys import key_of
from orchestrate.engine.perform import perform
from orchestrate.engine.programs import has_ended, was_started
from orchestrate.engine.ready import ready
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.scheduler import note_unsettled
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import Ask, Run
from orchestrate.state.model import Frame


def catch_up(rt: Runtime) -> None:
    """Conclude every program that has ended, and announce those that were begun."""
    note_unsettled(rt)
    state = rt.store.state
    while any(_conclude(rt, task.frame) for task in ready(state) if task.kind == "step"):
        pass  # what was concluded may have opened the way to others
    rt.store.sync()


def _conclude(rt: Runtime, frame: Frame) -> bool:
    """Has the step at a frame's cursor come to an end that is on record now?"""
    step = Step(rt, frame)
    if not isinstance(step.node.op, Run | Ask) or not was_started(rt, step.attempt_id):
        return False
    if has_ended(rt, step.attempt_id):
        events = perform(rt, frame)
        rt.store.record(*events)
        return bool(events)
    step.key = key_of(step)
    step.announce(is_begun=True)
    return False
