"""The rules around a call of another plan: how long it may take, and whether it is tried again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrate.exits import STEP_FAILED
from orchestrate.plan.retries import retry_delay
from orchestrate.record import record
from orchestrate.state.model import Frame, Index, RunState, Visit, frames_below, plan_frame
from orchestrate.state.pending_call import Postponed

# Kinds of failure that another try may cure, as agents report them in `error.context.kind`.
_TRANSIENT = ("rate-limit", "overloaded", "network", "timeout")


@record
class Expired:
    """A call that has taken longer than its step allows."""

    caller: Frame
    timeout_s: float


def call_deadline(index: Index, frame: Frame) -> float | None:
    """When the innermost-ending call around a frame runs out of time; None if none does, at least
    not as long as an agent's call inside of it waits for a slot or a quota."""
    deadlines = [limit for _, limit, _ in _limits(index, frame)]
    return min(deadlines, default=None)


def expired_call(index: Index, frame: Frame, now: float) -> Expired | None:
    """The outermost call around a frame whose time is up."""
    over = [(caller, timeout) for caller, limit, timeout in _limits(index, frame) if now >= limit]
    return Expired(*over[-1]) if over else None


def expired_calls(
    index: Index, state: RunState, now: float, at_work: Sequence[Frame] = ()
) -> Iterator[Expired]:
    """The calls of the run whose time is up, and in which none of the frames `at_work` is."""
    for frame in frames_below(state.root):
        over = expired_call(index, frame, now)
        if over is not None and not any(_is_within(one, over.caller) for one in at_work):
            yield over


def _is_within(frame: Frame | None, outer: Frame) -> bool:
    while frame is not None and frame is not outer:
        frame = frame.parent
    return frame is not None


def _limits(index: Index, frame: Frame) -> list[tuple[Frame, float, float]]:
    """The calls around a frame that have a limit, innermost first: caller, deadline, limit."""
    limits = []
    called = plan_frame(frame)
    while called.parent is not None:
        timeout = index.here(called.parent).node.timeout_s
        if timeout is not None and not any(_waiting_below(called)):
            limits.append((called.parent, called.began + timeout, timeout))
        called = plan_frame(called.parent)
    return limits


def _waiting_below(called: Frame) -> Iterator[Visit]:
    """The visits in a called plan whose agents' calls wait, or have waited and not begun yet."""
    visits = (frame.here for frame in frames_below(called))
    return (here for here in visits if here is not None and here.waits)


def end_wait(frame: Frame, here: Visit, at: float) -> None:
    """What a step has waited for is there: the time of the calls around it goes on, where no other
    of their steps waits. The wait of another one that began meanwhile is taken to be the same."""
    since, here.waits = (here.waits.since if here.waits else at), Postponed()
    called = plan_frame(frame)
    while called.parent is not None:
        other = next(_waiting_below(called), None)
        if other is None:
            called.began += max(at - since, 0.0)
        else:
            other.waits |= Postponed(since=min(since, other.waits.since))
        called = plan_frame(called.parent)


def pass_over(frame: Frame, idle_s: float) -> None:
    """The time limit of a call is for work, not for the night between two sittings."""
    if frame.began:
        frame.began += idle_s
    if frame.here is not None and frame.here.waits:
        frame.here.waits |= Postponed(since=frame.here.waits.since + idle_s)


def call_retry(index: Index, called: Frame, *, is_transient: bool = False) -> float | None:
    """After how many seconds a call that failed is tried again; None if it is not."""
    caller = called.parent
    if caller is None or caller.here is None:
        return None
    retry = index.here(caller).node.retry
    if retry is None:
        return None
    transient = is_transient or failed_transiently(called)
    # A restart inside of it was not a failure of the call.
    tries = caller.here.tries - int(caller.here.turn.get("restarts", 0))
    return retry_delay(retry, tries, STEP_FAILED, transient, 0.0)


def failed_transiently(called: Frame) -> bool:
    """Was what ended a plan something that another try may cure?"""
    return any(
        result.status == "failed" and result.context.get("kind") in _TRANSIENT
        for frame in frames_below(called)
        for result in frame.steps.values()
    )
