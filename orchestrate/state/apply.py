"""The fold: the only way a `RunState` changes. Deterministic, and as fast at step 100,000.

An event says what happened at a frame's cursor; `routing.py` knows where that leads.
"""

from __future__ import annotations

from orchestrate.digest import digest_of
from orchestrate.plan.expr import constant_of
from orchestrate.plan.nodes import (
    FAILED,
    INVALID,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Gate,
    Run,
    Wait,
    target_of,
)
from orchestrate.record import replace
from orchestrate.state.address import FrameKey
from orchestrate.state.calls import end_wait, pass_over
from orchestrate.state.captured import keep_checkpoint
from orchestrate.state.edits import begin_edit, keep_turn
from orchestrate.state.effects import may_have_happened
from orchestrate.state.events import (
    AttemptEnded,
    CallExpired,
    CallOpened,
    CallWaits,
    Checkpointed,
    CostReserved,
    Edited,
    Event,
    Gap,
    GateDecided,
    GateOpened,
    ItemMoved,
    ItemMoving,
    ItemsMerged,
    ItemStopped,
    LimitNear,
    LoopOpened,
    OutputsGiven,
    Restarted,
    RoundEnded,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionChosen,
    SessionSeen,
    StepFinished,
    StepStarted,
)
from orchestrate.state.failing import nothing_runs, with_outcome
from orchestrate.state.gates import add_decision, add_opened, expire_asked
from orchestrate.state.model import (
    Frame,
    Index,
    RunState,
    Session,
    attempt_names,
    frames_below,
    mark_anew,
    plan_frame,
)
from orchestrate.state.result import SkippedStep, StepResult
from orchestrate.state.rounds import tell_step
from orchestrate.state.routing import (
    close_iteration,
    end_round,
    enter_call,
    enter_loop,
    expire_call,
    finish_loop,
    give_outputs,
    go_on,
    merge_items,
    open_items,
    waits_for_files,
)
from orchestrate.state.sessions import (
    choose_session,
    forget_sessions,
    kept_session,
    see_session,
)
from orchestrate.state.spending import (
    count_call,
    count_costs,
    count_denials,
    count_reused,
    end_work,
    put_off,
    spent_in,
    with_denials,
    with_spent,
)
from orchestrate.state.times import timestamp
from orchestrate.state.visits import Fold, arrive, begin_visit, frame_of, here_of, keep_value
from orchestrate.state.working_time import Unwatched

# Who has decided where no person did in time.
TIMEOUT = "timeout"


def start(index: Index, event: RunStarted) -> RunState:
    """The state of a run that has just begun."""
    index.turn_to(0)
    root = Frame(key="", plan=event.plan, block=index.plan(event.plan).blocks[0].id)
    root.variables = dict(event.context)
    state = RunState(
        run_id=event.run_id,
        workspace=event.workspace,
        definition=event.definition,
        dialect=event.dialect,
        schema_version=event.schema_version,
        checksum=event.checksum,
        sources=event.sources,
        settings=event.settings,
        version=event.version,
        started_at=event.at,
        updated_at=event.at,
        root=root,
        session=Session(event.session, is_created=event.has_session),
        machine_started=event.at,
        clock=event.clock,
        place=event.place,
    )
    state.worktree, state.forked = event.worktree, event.forked
    state.frames[""] = root
    arrive(root, index.plan(event.plan).blocks[0].entry)
    return state


def apply(index: Index, state: RunState, event: Event) -> None:  # noqa: PLR0912, PLR0915 - one an event
    """Fold one event into the state."""
    match event:
        case StepFinished():
            _finish_step(Fold(index, state, event.at), event)
        case StepStarted():
            _start_attempt(index, state, event)
        case CostReserved() | CallWaits():
            put_off(here_of(frame_of(state, event.frame), event.node, event.visit), event)
        case LimitNear():
            state.near.append(event.key)
        case AttemptEnded():
            _end_attempt(index, state, event)
        case LoopOpened():
            enter_loop(Fold(index, state, event.at), event)
        case RoundEnded():
            end_round(Fold(index, state, event.at), event)
        case ItemMoving():
            frame_of(state, event.frame).moving = [event.source, event.target, event.file]
        case ItemMoved():
            frame = frame_of(state, event.frame)
            frame.lifecycle = event.lifecycle
            close_iteration(Fold(index, state, event.at), frame)
        case ItemStopped():
            frame = frame_of(state, event.frame)
            frame.label = FAILED
            close_iteration(Fold(index, state, event.at), frame)
        case ItemsMerged():
            merge_items(Fold(index, state, event.at), event)
        case CallOpened():
            enter_call(index, state, event)
        case CallExpired():
            expire_asked(state.approvals, event)
            expire_call(Fold(index, state, event.at), event)
        case OutputsGiven():
            give_outputs(Fold(index, state, event.at), event)
        case GateOpened():
            _open_gate(index, state, event)
        case GateDecided():
            _decide_gate(Fold(index, state, event.at), event)
        case SessionSeen():
            see_session(index, state, event)
        case SessionChosen():
            choose_session(index, state, event)
        case Restarted():
            _restart(index, state, event)
        case Edited():
            begin_edit(index, state, event)
        case RunResumed():
            state.clock = event.clock or state.clock
            state.place = event.place or state.place
            _resume(Fold(index, state, event.at), event)
        case RunEnded():
            _end_run(index, state, event)
        case Checkpointed():
            keep_checkpoint(state, event)
        case RunStarted() | Gap():
            return
    state.updated_at = event.at


# Steps.


def _start_attempt(index: Index, state: RunState, event: StepStarted) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    node = index.place(frame.plan, event.node).node
    begin_visit(state, frame, here, event.at, node.part_of)
    name = node.name
    if event.origin is not None:
        here.origin = event.origin
    elif state.edit:
        mark_anew(frame)
    if event.key and isinstance(node.op, Ask):
        here.key = digest_of(event.key)
    result = StepResult(
        status="running",
        exit_code=None,
        started_at=timestamp(here.since),
        attempts=event.attempt,
        address=attempt_names(frame, here, name, event.attempt, index.twins).text,
    )
    frame.steps[name] = with_denials(frame, here, name, result | event.about)
    if here.phase != "running":
        begun = event.at if event.origin is None else state.updated_at
        state.worked = state.worked.begun(begun)
    if isinstance(node.op, Ask):
        count_call(state, frame, is_taken_over=event.origin is not None)
    here.phase = "running"
    end_wait(frame, here, event.at)
    here.attempt = event.attempt
    here.attempt_since = event.at
    here.where = event.where
    here.tries += 1


def _end_attempt(index: Index, state: RunState, event: AttemptEnded) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    node = index.place(frame.plan, event.node).node
    name = node.name
    result = event.result.without("turn")
    whole = with_denials(frame, here, name, result)
    if event.why in ("stopped", "lost") and not isinstance(node.op, Wait):
        # Perhaps a night ago: the step's time is that of the work done from now on.
        here.since = event.at
    here.attempt = max(here.attempt, event.attempt)
    if here.phase == "running":
        end_work(state, event.at, StepResult() if isinstance(node.op, Wait) else event.result)
    here.phase = "arriving"
    if event.why not in ("stopped", "void"):
        here.losses = event.losses
    match event.why:
        case "failed":
            here.phase = "resting"
            here.rest_until = event.at + event.rest_s
        case "stopped" | "lost" | "void" | "no-session" | "budget" | "quota":
            # None of these was the step's own fault.
            here.tries = max(here.tries - 1, 0)
            if event.rest_s:
                here.phase, here.rest_until = "resting", event.at + event.rest_s
            if event.waits:
                here.phase = "lost"
            put_off(here, event)
        case "reminded":
            here.tries = max(here.tries - 1, 0)
            if frame.parent is None:
                state.retry_counts[event.node] = state.retry_counts.get(event.node, 0) + 1
            here.is_cut_off = False
            error = str((event.result.turn or {}).get("error", ""))
            here.turn = {"error": error, "spent": spent_in(result)}
    here.is_cut_off = here.is_cut_off or event.cut_off
    is_over = event.why in ("stopped", "lost", "void", "budget", "quota")
    standing = StepResult(status="pending" if is_over else "running", last_attempt=event.why)
    frame.steps[name] = whole | standing
    count_costs(state, frame, here, kept_session(index, frame, here), result)
    count_denials(state, frame, name, result)


def _finish_step(fold: Fold, event: StepFinished) -> None:
    state = fold.state
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    if here.phase == "running":
        end_work(state, event.at, StepResult() if isinstance(node.op, Wait) else event.result)
    if event.label != SKIPPED:
        begin_visit(state, frame, here, event.at, node.part_of)
    else:
        frame.visits[event.node] = event.visit
        skipped = SkippedStep(node.name, event.result.reason, event.result.condition)
        state.skipped.append(skipped)
    here.is_cut_off = here.is_cut_off or event.cut_off
    if event.result.reused:
        count_reused(state, frame, event.result)
    else:
        count_costs(state, frame, here, kept_session(fold.index, frame, here), event.result)
        count_denials(state, frame, node.name, event.result)
        if state.edit and event.label != SKIPPED:
            mark_anew(frame)
    if isinstance(node.op, Ask):
        keep_turn(fold.index, state, frame, here, event)
    whole = with_denials(frame, here, node.name, event.result)
    result = with_outcome(node, event.label, with_spent(whole, here.turn.get("spent", {})))
    frame.steps[node.name] = result
    tell_step(fold.index, frame, node, event.label, result)
    if event.label == INVALID:
        # Its prompt was answered: who resumes the run asks for the outcome only.
        here.turn = {"error": event.result.message, "spent": spent_in(result)}
    if event.has_value:
        keep_value(frame, node, event.value)
    if isinstance(node.op, Run) and node.op.exit_code is not None and event.label != SKIPPED:
        plan_frame(frame).variables[node.op.exit_code] = result.exit_code
    target = node.follow if event.choice == "continue" else target_of(node, event.label)
    go_on(fold, frame, node, event.label, target)


def _open_gate(index: Index, state: RunState, event: GateOpened) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    here.phase = "asking"
    if index.place(frame.plan, event.node).node.is_step:
        begin_visit(state, frame, here, event.at)
    frame.visits[event.node] = event.visit
    if state.edit and not event.reused:
        mark_anew(frame)
    add_opened(state.approvals, event)


def _decide_gate(fold: Fold, event: GateDecided) -> None:
    frame = frame_of(fold.state, event.frame)
    here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    assert isinstance(node.op, Gate)
    add_decision(fold.state.approvals, event)
    if event.decision == "approved":
        plan_frame(frame).approval = event.message
    if node.op.is_step:
        frame.steps[node.name] = StepResult(
            status="completed",
            exit_code=0,
            completed_at=timestamp(event.at),
            outcome=event.decision,
            decision_message=event.message,
        )
    label = f"@{event.decision}"
    target = target_of(node, label)
    if event.by == TIMEOUT and isinstance(target, Abort):
        target = replace(target, reason=f"{target.reason} by timeout")
    go_on(fold, frame, node, label, target)


# The run as a whole.


def _restart(index: Index, state: RunState, event: Restarted) -> None:
    """A fresh plan in a fresh session; only what was spent and done stays on record (A §3.2)."""
    block = index.plan(event.plan).blocks[0]
    for node, visits in state.root.visits.items():
        state.earlier_visits[node] = state.earlier_visits.get(node, 0) + visits
    root = Frame(
        key=FrameKey(state.restarts + 1, edit=state.edit).text, plan=event.plan, block=block.id
    )
    root.steps = state.root.steps
    # What the run was told holds in every session of it.
    for one in index.plan(event.plan).inputs:
        if one.name in state.root.variables:
            root.variables[one.name] = state.root.variables[one.name]
        elif one.default is not None:
            root.variables[one.name] = constant_of(one.default)
    state.frames = {root.key: root}
    state.root = root
    state.restart = None
    state.restarts += 1
    state.steps_run = 0
    state.session = Session(event.session)
    state.machine_started = event.at
    state.current = ""
    state.retry_counts = {}
    arrive(root, block.entry)


def _end_run(index: Index, state: RunState, event: RunEnded) -> None:
    state.ending = event.ending
    state.status = event.status
    state.reason = event.reason
    state.completed_at = event.at if event.status != "paused" else None
    state.stopped_at = event.at
    state.worked = state.worked.left(event.at)
    nothing_runs(index, state)


def _resume(fold: Fold, event: RunResumed) -> None:
    state = fold.state
    if state.root.here is not None or state.restart is not None:
        # Else the plan is at its end already, and only that was not yet written down.
        state.ending = None
    state.status = "running"
    state.reason = None
    state.completed_at = None
    state.worked = state.worked.left(state.updated_at)
    # Without a stop on record it was killed, and what it had started may have gone on.
    counted = state.updated_at if state.stopped_at is None else fold.at
    state.unwatched = Unwatched(counted, fold.at)
    idle_s = 0.0 if state.stopped_at is None else max(0.0, fold.at - state.stopped_at)
    state.stopped_at = None
    state.settings = {**state.settings, **event.settings}
    state.root.variables |= event.context
    if event.copied:
        forget_sessions(fold.index, state, event.sessions)
    for frame in list(frames_below(state.root)):
        here = frame.here
        pass_over(frame, idle_s)
        if frame.call is not None:
            again = frame.steps[frame.call.owner] | StepResult(status="running", exit_code=None)
            frame.steps[frame.call.owner] = again.without("error")
        if here is None:
            continue
        here.used = [0.0, 0]
        if here.phase == "running":
            state.worked = state.worked.begun(fold.at)
        if may_have_happened(fold.index, frame):
            here.phase = "lost"
        elif here.phase == "lost" or (here.phase == "resting" and here.losses):
            here.phase = "arriving"
        here.losses = 0
        if here.phase == "arriving" and here.since and not waits_for_files(fold, frame):
            # It was stopped, perhaps for a night: its time is that of the work done from now on.
            here.since = fold.at
        if here.phase == "resting" and "retry_delay" in event.settings:
            here.rest_until = fold.at + float(event.settings["retry_delay"]) / 1000
        if here.phase == "open":
            # Items that ended with the failure of another one have left room for new ones.
            open_items(fold.index, state, frame)
        if here.phase != "failed":
            continue
        # Its time begins anew: mending the cause may have taken an hour.
        here.since = fold.at
        loop = frame.loops.get(here.node)
        if loop is None or loop.is_closed:
            here.phase = "arriving"
            here.tries = 0
            continue
        # The failed item's file has been put aside: the loop goes on behind it.
        here.phase = "open"
        loop.is_stopping, loop.label = False, ""
        open_items(fold.index, state, frame)
        if loop.is_spent and not loop.open:
            # Moved out of the way is not mended: what comes after the loop was not promised it.
            finish_loop(fold, frame, loop, FAILED if loop.failed else OK)
