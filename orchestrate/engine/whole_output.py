"""Output that could not be written whole is not a result: the attempt is void, and the run stops
until the disk is repaired."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from orchestrate.engine.confine import is_the_machines
from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.programs import MakeFollower, MakeJob, Watch, has_ended, run_program
from orchestrate.engine.step import Step
from orchestrate.errors import OrchestrateError, StateError, explain, way_out
from orchestrate.execute.base import Exit, Lost
from orchestrate.exits import STEP_FAILED
from orchestrate.plan.nodes import Ask, Run
from orchestrate.record import replace
from orchestrate.state.events import Event
from orchestrate.state.result import StepError, StepResult


class NotWhole(Exception):
    """An exit that is not a result; never leaves `perform`.

    `is_old`: it was on record before we came, and a resume means that the disk was repaired: a new
    attempt begins. Otherwise the run stops with `fault`.
    """

    def __init__(self, fault: StateError, *, is_old: bool) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.is_old = is_old
        # What else is to be recorded with the attempt's end, and said about it.
        self.events: list[Event] = []
        self.more = StepResult()
        # Was it a turn in an agent's session, which goes on without its end?
        self.is_cut_off = False


def run_whole(
    step: Step,
    make: MakeJob,
    watch: Watch | None = None,
    follower: MakeFollower | None = None,
) -> Exit | Lost:
    """How the step's program ended, with all of its output; `NotWhole` if some of that is missing.

    One that we have stopped ourselves has no result anyway.
    """
    rt = step.rt
    is_old = has_ended(rt, step.attempt_id)
    ended = run_program(rt, step.attempt_id, make, watch, follower)
    if isinstance(ended, Exit) and not ended.stopped:
        fault = _fault_of(step, ended)
        if fault is not None:
            raise NotWhole(fault, is_old=is_old)
    return ended


def void(step: Step, lack: NotWhole) -> list[Event]:
    """The end of an attempt without a result; of a new one the run ends, too, until a `resume`."""
    error = StepError(message=lack.fault.message, exit_code=STEP_FAILED)
    ended = step.ended("void", step.result("failed", None, StepResult(error=error) | lack.more))
    events = [*lack.events, replace(ended, cut_off=lack.is_cut_off)]
    if lack.is_old:
        return events
    # It keeps the earlier limits and distrust, which a `resume` must not meet again.
    step.rt.are_executors_spent = True
    # Where there is no room for this either, `resume` finds the exit in the executor's records.
    with suppress(OrchestrateError):
        step.rt.store.record(*events)
    raise lack.fault


def _fault_of(step: Step, ended: Exit) -> StateError | None:
    """Why the output is not whole; None if it is."""
    has_fault = ended.stdout_fault or ended.stderr_fault or ended.tee_fault or ended.start_fault
    if not has_fault and ended.stdout is not None and ended.stderr is not None:
        return None
    out, err = step.log("stdout"), step.log("stderr")
    for name, path in ((ended.stdout_fault, out), (ended.stderr_fault, err)):
        if name:
            return _explained(step, path, name)
    if ended.tee_fault:
        return _explained(step, _output_file(step), ended.tee_fault)
    if ended.start_fault and is_the_machines(OSError(_number(ended.start_fault), "")):
        # Not even its input could be laid ready.
        return _told(step, f"it could not be started: {ended.start_error}", ended.start_fault)
    for path, inline, size in (
        (out, ended.stdout, ended.stdout_bytes),
        (err, ended.stderr, ended.stderr_bytes),
    ):
        if inline is None and (found := _size_of(path)) < size:
            what = f"{path} has {found} of the {size} bytes that it printed"
            return _told(step, what, "")
    return None


def _explained(step: Step, path: Path, name: str) -> StateError:
    number = _number(name)
    reason = explain("write", path, OSError(number, os.strerror(number))).message
    what = f"its output could not be written whole: {reason}, on the file system at {_mount(path)}"
    return _told(step, what, name)


def _told(step: Step, what: str, name: str) -> StateError:
    # That a file is not there has a way out of its own, below, only if nothing is.
    known = way_out(_number(name)) if name not in ("", "ENOENT") else ""
    remedy = known or "keep other programs from changing the run's files"
    hint = f"{remedy}, then run the step again: orchestrate resume {step.rt.facts.id}"
    if not os.path.exists(step.rt.store.run.root):
        hint = explain("read", step.rt.store.run.root, OSError(errno.ENOENT, "")).hint
    return StateError(f"step '{step.address.step.shown}' has no result: {what}", hint)


def _number(name: str) -> int:
    number: int = getattr(errno, name, errno.EIO)
    return number


def _output_file(step: Step) -> Path:
    op = step.node.op
    if isinstance(op, Run | Ask) and op.capture.output_file is not None:
        with suppress(StepFault):
            return step.rt.workspace.root / render(op.capture.output_file, step.scope)
    return step.rt.workspace.root


def _mount(path: Path) -> Path:
    """Where the file system of a file begins, as `df` names it."""
    place = path if os.path.exists(path) else path.parent
    with suppress(OSError):
        place = Path(os.path.realpath(place))
        while not os.path.ismount(place) and place != place.parent:
            place = place.parent
    return place


def _size_of(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise explain("read", path, error) from error
