"""Where a label leads: cursors move along the plan's routes, frames open, close and return.

A frame that ends takes its parent further, so one result may close an iteration, its loop and the
run. When a failure would end the run, the frames on its way stay open with their cursors where they
are: `resume` goes on from the failed step itself, not from the loop around it.
"""

from __future__ import annotations

from orchestrate.exits import STEP_FAILED, STEP_TIMED_OUT, end, some_failed
from orchestrate.plan.calling import label_of_call
from orchestrate.plan.nodes import (
    CONFLICT,
    FAILED,
    LOST,
    OK,
    Abort,
    Call,
    Each,
    Finish,
    Goto,
    Label,
    Leave,
    Node,
    PlanId,
    Restart,
    Target,
    Wait,
    conflict_of,
    target_of,
)
from orchestrate.plan.settings import PARALLEL_ITEMS, Limits
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.address import FrameKey
from orchestrate.state.calls import call_retry
from orchestrate.state.durable import parse_json
from orchestrate.state.encoded_results import encode_results
from orchestrate.state.events import (
    CallExpired,
    CallOpened,
    ItemsMerged,
    LoopOpened,
    OutputsGiven,
    RoundEnded,
)
from orchestrate.state.failing import (
    ending_of,
    mark_callers,
    move_of,
    value_of_call,
    with_stack,
)
from orchestrate.state.model import (
    Frame,
    Index,
    Loop,
    RunState,
    frames_below,
    open_loop,
    plan_frame,
    plan_stack,
    visit_of,
)
from orchestrate.state.names import item_key
from orchestrate.state.result import StepError, StepResult
from orchestrate.state.rounds import forget_value
from orchestrate.state.spending import leave_used, take_used
from orchestrate.state.times import timestamp
from orchestrate.state.visits import (
    Fold,
    arrive,
    begin_visit,
    count_step,
    frame_of,
    here_of,
    keep_value,
)


def go_on(fold: Fold, frame: Frame, node: Node, label: Label, target: Target) -> None:
    if fold.index.hear_move is not None:
        fold.index.hear_move(frame.plan, node.id, label, target)
    if label == LOST and target == Goto(node.id):
        # The same visit, a new attempt: what was lost was not a fault of the step.
        assert frame.here is not None
        frame.here.phase = "arriving"
        frame.here.tries = max(frame.here.tries - 1, 0)
        return
    ending = ending_of(fold.index, frame, target)
    if ending is not None:
        assert frame.here is not None
        frame.here.phase = "failed"
        fold.state.ending = fold.state.ending or ending
        mark_callers(frame, ending.reason)
        return
    if label == FAILED and node.part_of is not None:
        forget_value(fold.index, frame, node, target)
    if label == FAILED and node.on_failure == "count" and not isinstance(target, Leave):
        fold.state.has_failures = True
    _follow(fold, frame, target)


def _follow(fold: Fold, frame: Frame, target: Target) -> None:
    match target:
        case Goto(node_id):
            place, before = fold.index.place(frame.plan, node_id), frame.here
            if place.block.id == frame.block:
                arrive(frame, node_id)
                if place.node.part_of is not None and before is not None and frame.here is not None:
                    frame.here.used = before.used  # its step's limits hold for all rounds
            else:
                _leave(fold, frame, FAILED, target)
        case Leave(label):
            _leave(fold, frame, label, None)
        case Finish():
            if frame.is_iteration:
                _leave(fold, frame, FAILED, target)
            else:
                _finish_plan(fold, frame, target)
        case Abort(_, reason):
            _return(fold, plan_frame(frame), reason, is_ok=False)
        case Restart(plan) if frame.parent is not None:
            _restart_call(fold, frame.parent, frame, plan)
        case Restart(plan):
            frame.here = None
            fold.state.restart = plan


# Loops.


def enter_loop(fold: Fold, event: LoopOpened) -> None:
    frame = frame_of(fold.state, event.frame)
    here = here_of(frame, event.node, event.visit)
    begin_visit(fold.state, frame, here, event.at)
    # A loop is not a step of its own: its items are.
    count_step(fold.state, frame, -1)
    here.phase = "open"
    loop = Loop(event.node, fold.index.place(frame.plan, event.node).node.name, list(event.items))
    loop.spread = event.spread
    frame.loops[event.node] = loop
    open_items(fold.index, fold.state, frame)
    if loop.is_spent and not loop.open:
        finish_loop(fold, frame, loop, OK)


def open_items(index: Index, state: RunState, frame: Frame) -> None:
    """Make the frames of the items that may run now: one, or as many as run at once."""
    loop = open_loop(frame)
    if loop is None or loop.is_stopping or state.ending is not None:
        return
    place = index.here(frame)
    each = place.node.op
    assert isinstance(each, Each)
    most = _most_at_once(each, place.plan.limits)
    while len(loop.open) < most and not loop.is_spent:
        _open_item(index, state, frame, loop, each)


def _most_at_once(each: Each, limits: Limits) -> int:
    if each.parallel is True:
        return limits.max_parallel or PARALLEL_ITEMS
    own = int(each.parallel) or 1
    return own if limits.max_parallel is None else min(own, limits.max_parallel)


def _open_item(index: Index, state: RunState, frame: Frame, loop: Loop, each: Each) -> None:
    inner = next_item(index, frame, loop, each)
    loop.open[loop.next_index] = inner
    loop.next_index += 1
    state.frames[inner.key] = inner


def next_item(index: Index, frame: Frame, loop: Loop, each: Each) -> Frame:
    """The frame of the item that is opened next, at its first step."""
    assert frame.here is not None
    position = loop.next_index
    inner = Frame(
        key=item_key(frame.key, loop.name, position, frame.here.visit),
        plan=frame.plan,
        block=each.body,
        parent=frame,
        index=position,
        item=loop.items[position],
        total=len(loop.items) if each.rounds is None else each.limit or 0,
        variable=each.variable,
    )
    if frame.anew and (each.rounds is not None or frame.anew != visit_of(frame.here)):
        # Items are independent of each other; what is before their loop is not.
        inner.anew = frame.anew
    arrive(inner, index.block(frame.plan, each.body).entry)
    return inner


def _leave(fold: Fold, frame: Frame, label: Label, then: Target | None) -> None:
    """An iteration is over; its item's file may have to be moved before anything else, or another
    round may follow."""
    assert frame.parent is not None
    assert frame.here is not None
    frame.label = label
    frame.then = then
    each = fold.index.here(frame.parent).node.op
    assert isinstance(each, Each)
    asks_for_more = each.rounds is not None and label == OK
    if asks_for_more or (move_of(each.moves, label) is not None and frame.lifecycle is None):
        frame.here.phase = "leaving"
    else:
        close_iteration(fold, frame)


def close_iteration(fold: Fold, frame: Frame) -> None:
    outer = frame.parent
    assert outer is not None
    assert frame.index is not None
    place = fold.index.here(outer)
    loop = outer.loops[place.node.id]
    _forget(fold.state, frame)
    del loop.open[frame.index]
    loop.done[frame.index] = encode_results(frame)
    if frame.label == FAILED:
        loop.failed.append(frame.index)
    each = place.node.op
    assert isinstance(each, Each)
    if frame.then is not None:
        loop.is_closed = True
        _follow(fold, outer, frame.then)
        return
    if frame.label == FAILED and each.stop_on_failure:
        loop.is_stopping = True
    if loop.open:
        open_items(fold.index, fold.state, outer)
    elif loop.is_stopping:
        finish_loop(fold, outer, loop, FAILED)
    elif loop.is_spent:
        finish_loop(fold, outer, loop, FAILED if loop.failed else OK)
    else:
        open_items(fold.index, fold.state, outer)


def end_round(fold: Fold, event: RoundEnded) -> None:
    frame = frame_of(fold.state, event.frame)
    plan_frame(frame).variables |= event.context
    assert frame.parent is not None
    if event.error:
        frame.label = FAILED
        ending = ending_of(fold.index, frame, Leave(FAILED))
        if ending is not None:
            # The cursor stays: a resume judges this round again.
            frame.label = OK
            reason = f"{ending.reason}: {event.error}"
            fold.state.ending = fold.state.ending or replace(ending, reason=reason)
            return
    elif event.goes_on:
        loop = frame.parent.loops[fold.index.here(frame.parent).node.id]
        loop.items.append(len(loop.items) + 1)
    close_iteration(fold, frame)


def finish_loop(fold: Fold, frame: Frame, loop: Loop, label: Label) -> None:
    if loop.spread and loop.items and not loop.label:
        # What its items have changed is merged first.
        loop.label = label
        return
    node = fold.index.place(frame.plan, loop.node).node
    each = node.op
    assert isinstance(each, Each)
    target = target_of(node, label)
    if label == FAILED and ending_of(fold.index, frame, target) is not None:
        go_on(fold, frame, node, label, target)
        return
    loop.is_closed = True
    plan = plan_frame(frame)
    if label in (OK, CONFLICT):
        if each.collect is not None:
            plan.variables[each.collect] = [loop.values.get(i) for i in range(len(loop.items))]
        if node.output is not None and loop.items:
            plan.variables[node.output] = loop.values.get(len(loop.items) - 1)
    go_on(fold, frame, node, label, target)


def _forget(state: RunState, frame: Frame) -> None:
    for inner in frames_below(frame):
        state.frames.pop(inner.key, None)


# Calls, plans, gates.


def enter_call(index: Index, state: RunState, event: CallOpened) -> None:
    frame = frame_of(state, event.frame)
    if event.late:
        state.late[event.plan] = event.late
    here = here_of(frame, event.node, event.visit)
    begin_visit(state, frame, here, event.at)
    here.phase = "open"
    name = index.place(frame.plan, event.node).node.name
    here.tries += 1
    if here.turn.pop("restart", None) is not None:
        here.turn["restarts"] = int(here.turn.get("restarts", 0)) + 1
        state.restarts += 1
    key = FrameKey.parse(frame.key).call(name, event.visit, here.tries).text
    block = index.plan(event.plan).blocks[0]
    called = Frame(key=key, plan=event.plan, block=block.id, parent=frame, owner=name)
    called.began = event.at
    called.worked_before = state.worked.until(event.at)
    take_used(here, called)
    called.anew = frame.anew
    called.spread = event.spread
    called.variables = dict(event.context)
    frame.call = called
    state.frames[key] = called
    frame.steps[name] = StepResult(
        status="running", exit_code=None, started_at=timestamp(event.at), recipe=event.plan
    )
    arrive(called, block.entry)


def _restart_call(fold: Fold, caller: Frame, called: Frame, plan: PlanId) -> None:
    """A called machine starts afresh, or as another: its call is opened once more (A §3.2)."""
    assert caller.here is not None
    caller.call = None
    _forget(fold.state, called)
    caller.here.phase = "arriving"
    caller.here.turn["restart"] = plan
    leave_used(caller.here, called)


def give_outputs(fold: Fold, event: OutputsGiven) -> None:
    frame = frame_of(fold.state, event.frame)
    frame.outputs = event.outputs
    frame.undefined = event.undefined
    finish, frame.then = frame.then, None
    assert isinstance(finish, Finish)
    _finish_plan(fold, frame, finish)


def _finish_plan(fold: Fold, frame: Frame, finish: Finish) -> None:
    assert frame.here is not None
    if fold.index.plan(frame.plan).outputs.items and frame.outputs is None:
        # They are worked out first: values are none of the fold's business.
        frame.here.phase = "leaving"
        frame.then = finish
        return
    frame.here = None
    if frame.parent is not None:
        _return(fold, frame, finish.reason, is_ok=finish.end != "exit-failed")
    elif fold.state.has_failures:
        fold.state.ending = some_failed()
    else:
        fold.state.ending = end(finish.end, finish.reason)


def merge_items(fold: Fold, event: ItemsMerged) -> None:
    """Items that other machines have taken are merged: their loop is over, or the call."""
    frame = frame_of(fold.state, event.frame)
    here_of(frame, event.node, event.visit)
    conflict = ""
    if event.conflicts and not event.marked:
        conflict = f"conflicting changes of {', '.join(map(visible, event.conflicts))}"
    frame.conflicts = list(event.conflicts) if event.marked else []
    if frame.call is not None:
        called, reason = frame.call, conflict or frame.call.merges[0]
        called.spread = ""
        _return(fold, called, reason, is_ok=not conflict, is_marked=event.marked)
        return
    loop = frame.loops[event.node]
    if event.marked:
        finish_loop(fold, frame, loop, CONFLICT)
        return
    was_ending = fold.state.ending is not None
    finish_loop(fold, frame, loop, FAILED if conflict else loop.label)
    ending = fold.state.ending
    if conflict and ending is not None and not was_ending:
        fold.state.ending = replace(ending, reason=f"{ending.reason}: {conflict}")


def expire_call(fold: Fold, event: CallExpired) -> None:
    frame = frame_of(fold.state, event.frame)
    here_of(frame, event.node, event.visit)
    called = frame.call
    assert called is not None
    reason = f"timed out after {event.timeout_s:g} s"
    _return(fold, called, reason, is_ok=False, code=STEP_TIMED_OUT)


def _return(
    fold: Fold,
    called: Frame,
    reason: str,
    *,
    is_ok: bool,
    code: int = STEP_FAILED,
    is_marked: bool = False,
) -> None:
    """A called plan is over and its caller goes on with its result."""
    caller = called.parent
    assert caller is not None
    assert caller.here is not None
    node = fold.index.here(caller).node
    assert isinstance(node.op, Call)
    if called.spread and is_ok:
        # What it has changed is merged first.
        called.merges = [reason]
        return
    label = label_of_call(node.op, reason, is_ok=is_ok)
    result = StepResult(
        status="completed" if is_ok else "failed",
        exit_code=0 if is_ok else code,
        started_at=timestamp(caller.here.since),
        completed_at=timestamp(fold.at),
        duration_ms=max(0, round((fold.at - caller.here.since) * 1000)),
        recipe=called.plan,
        steps=parse_json(encode_results(called)),
    )
    value = value_of_call(fold.index, node.op, called, reason, result.status)
    if node.op.outcomes:
        result |= StepResult(outcome=label)
    if "reason" in value:
        result |= StepResult(reason=reason)
    if called.outputs is not None:
        result |= StepResult(outputs=called.outputs)
    rest = None
    if not is_ok:
        error = StepError(
            message=with_stack(reason, called),
            exit_code=code,
            context={"stack": plan_stack(called)},
        )
        result |= StepResult(error=error)
        rest = call_retry(fold.index, called, is_transient=code == STEP_TIMED_OUT)
    caller.steps[node.name] = result if rest is None else result | StepResult(status="running")
    caller.call = None
    _forget(fold.state, called)
    if rest is not None:
        leave_used(caller.here, called)
        caller.here.phase = "resting"
        caller.here.rest_until = fold.at + rest
        return
    if is_ok:
        keep_value(caller, node, value)
    if is_marked:
        label = conflict_of(node.op, label)
    go_on(fold, caller, node, label, target_of(node, label))


def waits_for_files(fold: Fold, frame: Frame) -> bool:
    """Does the step? Its limit counts from its first start, watched or not."""
    return isinstance(fold.index.here(frame).node.op, Wait)
