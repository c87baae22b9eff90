"""The fold: the only way a `RunState` changes. Deterministic, and as fast at step 100,000.

An event says what happened at a frame's cursor; `travel.py` knows where that leads.
"""

from __future__ import annotations

from orchestrate.plan.nodes import FAILED, INVALID, OK, SKIPPED, Abort, Gate, Wait, target_of
from orchestrate.record import replace
from orchestrate.state.address import FrameKey, address_of
from orchestrate.state.events import (
    AttemptEnded,
    CallExpired,
    CallOpened,
    Event,
    Gap,
    GateDecided,
    GateOpened,
    ItemMoved,
    ItemMoving,
    ItemStopped,
    LoopOpened,
    Restarted,
    RunEnded,
    RunResumed,
    RunStarted,
    SessionChosen,
    SessionSeen,
    StepFinished,
    StepStarted,
)
from orchestrate.state.gates import add_decision, add_opened
from orchestrate.state.model import (
    Frame,
    Index,
    RunState,
    Session,
    frames_below,
    plan_frame,
)
from orchestrate.state.result import SkippedStep, StepResult
from orchestrate.state.routing import (
    Fold,
    arrive,
    begin_visit,
    close_iteration,
    enter_call,
    enter_loop,
    expire_call,
    finish_loop,
    frame_of,
    go_on,
    here_of,
    keep_value,
    open_items,
)
from orchestrate.state.sessions import choose_session, see_session
from orchestrate.state.spending import (
    count_costs,
    count_denials,
    spent_in,
    with_denials,
    with_spent,
)
from orchestrate.state.times import timestamp

# Who has decided where nobody did in time.
TIMEOUT = "timeout"


def start(index: Index, event: RunStarted) -> RunState:
    """The state of a run that has just begun."""
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
    state.frames[""] = root
    arrive(root, index.plan(event.plan).blocks[0].entry)
    return state


def apply(index: Index, state: RunState, event: Event) -> None:  # noqa: PLR0912 - one an event
    """Fold one event into the state."""
    match event:
        case StepFinished():
            _finish_step(Fold(index, state, event.at), event)
        case StepStarted():
            _start_attempt(index, state, event)
        case AttemptEnded():
            _end_attempt(index, state, event)
        case LoopOpened():
            enter_loop(Fold(index, state, event.at), event)
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
        case CallOpened():
            enter_call(index, state, event)
        case CallExpired():
            expire_call(Fold(index, state, event.at), event)
        case GateOpened():
            _open_gate(state, event)
        case GateDecided():
            _decide_gate(Fold(index, state, event.at), event)
        case SessionSeen():
            see_session(index, state, event)
        case SessionChosen():
            choose_session(state, event)
        case Restarted():
            _restart(index, state, event)
        case RunResumed():
            state.clock = event.clock or state.clock
            state.place = event.place or state.place
            _resume(Fold(index, state, event.at), event)
        case RunEnded():
            state.ending = event.ending
            state.status = event.status
            state.reason = event.reason
            state.completed_at = event.at if event.status != "paused" else None
            state.stopped_at = event.at
            _nothing_runs(index, state)
        case RunStarted() | Gap():
            return
    state.updated_at = event.at


# Steps.


def _start_attempt(index: Index, state: RunState, event: StepStarted) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    begin_visit(state, frame, here, event.at)
    name = index.place(frame.plan, event.node).node.name
    result = StepResult(
        status="running",
        exit_code=None,
        started_at=timestamp(here.since),
        attempts=event.attempt,
        address=address_of(frame.key, name, event.visit, event.attempt).text,
    )
    frame.steps[name] = with_denials(frame, here, name, result | event.about)
    here.phase = "running"
    here.attempt = event.attempt
    here.attempt_since = event.at
    here.where = event.where
    here.tries += 1


def _end_attempt(index: Index, state: RunState, event: AttemptEnded) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    name = index.place(frame.plan, event.node).node.name
    result = event.result.without("turn")
    whole = with_denials(frame, here, name, result)
    here.attempt = max(here.attempt, event.attempt)
    here.phase = "arriving"
    if event.why not in ("stopped", "void"):
        here.losses = event.losses
    match event.why:
        case "failed":
            here.phase = "resting"
            here.rest_until = event.at + event.rest_s
        case "stopped" | "lost" | "void" | "no-session":
            # None of these was the step's own fault.
            here.tries = max(here.tries - 1, 0)
            if event.rest_s:
                here.phase = "resting"
                here.rest_until = event.at + event.rest_s
            if event.waits:
                here.phase = "lost"
        case "reminded":
            here.tries = max(here.tries - 1, 0)
            state.retry_counts[event.node] = state.retry_counts.get(event.node, 0) + 1
            here.is_cut_off = False
            error = str((event.result.turn or {}).get("error", ""))
            here.turn = {"error": error, "spent": spent_in(result)}
    here.is_cut_off = here.is_cut_off or event.cut_off
    is_over = event.why in ("stopped", "lost", "void")
    standing = StepResult(status="pending" if is_over else "running", last_attempt=event.why)
    frame.steps[name] = whole | standing
    count_costs(state, here, result)
    count_denials(state, name, result)


def _finish_step(fold: Fold, event: StepFinished) -> None:
    state = fold.state
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    if event.label != SKIPPED:
        begin_visit(state, frame, here, event.at)
    else:
        frame.visits[event.node] = event.visit
        skipped = SkippedStep(node.name, event.result.reason, event.result.condition)
        state.skipped.append(skipped)
    here.is_cut_off = here.is_cut_off or event.cut_off
    count_costs(state, here, event.result)
    count_denials(state, node.name, event.result)
    whole = with_denials(frame, here, node.name, event.result)
    result = with_spent(whole, here.turn.get("spent", {}))
    frame.steps[node.name] = result
    if event.label == INVALID:
        # Its prompt was answered: who resumes the run asks for the outcome only.
        here.turn = {"error": event.result.message, "spent": spent_in(result)}
    if event.has_value:
        keep_value(frame, node, event.value)
    target = node.follow if event.choice == "continue" else target_of(node, event.label)
    go_on(fold, frame, node, event.label, target)


def _open_gate(state: RunState, event: GateOpened) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    here.phase = "asking"
    frame.visits[event.node] = event.visit
    add_opened(state.approvals, event)


def _decide_gate(fold: Fold, event: GateDecided) -> None:
    frame = frame_of(fold.state, event.frame)
    here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    assert isinstance(node.op, Gate)
    add_decision(fold.state.approvals, event)
    if event.decision == "approved":
        plan_frame(frame).approval = event.message
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
    root = Frame(key=FrameKey(state.restarts + 1).text, plan=event.plan, block=block.id)
    root.steps = state.root.steps
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


def _nothing_runs(index: Index, state: RunState) -> None:
    """The run has stopped: a step that is not over waits to be started again."""
    for frame in frames_below(state.root):
        if frame.here is None:
            continue
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        if result is not None and result.status == "running":
            frame.steps[name] = result | StepResult(status="pending")


def _resume(fold: Fold, event: RunResumed) -> None:
    state = fold.state
    if state.root.here is not None or state.restart is not None:
        # Else the plan is at its end already, and only that was not yet written down.
        state.ending = None
    state.status = "running"
    state.reason = None
    state.completed_at = None
    idle_s = 0.0 if state.stopped_at is None else max(0.0, fold.at - state.stopped_at)
    state.stopped_at = None
    state.settings = {**state.settings, **event.settings}
    state.root.variables |= event.context
    if event.copied:
        _forget_sessions(fold)
    for frame in list(frames_below(state.root)):
        here = frame.here
        if frame.began:
            # The time limit of a call is for work, not for the night in which nobody worked on it.
            frame.began += idle_s
        if frame.call is not None:
            again = frame.steps[frame.call.owner] | StepResult(status="running", exit_code=None)
            frame.steps[frame.call.owner] = again.without("error")
        if here is None:
            continue
        if here.phase == "lost" or (here.phase == "resting" and here.losses):
            here.phase = "arriving"
        here.losses = 0
        if here.phase == "arriving" and here.since and not _waits(fold, frame):
            # It was stopped, perhaps for a night: its time is that of the work done from now on.
            here.since = fold.at
        if here.phase == "resting" and "retry_delay" in event.settings:
            here.rest_until = fold.at + float(event.settings["retry_delay"]) / 1000
        if here.phase != "failed":
            continue
        # Its time begins anew: whoever mended the cause may have taken an hour for it.
        here.since = fold.at
        loop = frame.loops.get(here.node)
        if loop is None or loop.is_closed:
            here.phase = "arriving"
            here.tries = 0
            continue
        # The failed item's file has been put aside: the loop goes on behind it.
        here.phase = "open"
        loop.is_stopping = False
        open_items(fold.index, state, frame)
        if loop.is_spent and not loop.open:
            # Moved out of the way is not mended: what comes after the loop was not promised it.
            finish_loop(fold, frame, loop, FAILED if loop.failed else OK)


def _waits(fold: Fold, frame: Frame) -> bool:
    """Does the step wait for files? Its limit counts from its first start, whoever watches."""
    return isinstance(fold.index.here(frame).node.op, Wait)


_OF_SESSIONS = ("session_id", "new_session_id", "is_new_session")


def _forget_sessions(fold: Fold) -> None:
    """The run is a copy: its sessions go on in the original, and two must not share one."""
    state = fold.state
    state.session = Session()
    for frame in frames_below(state.root):
        if frame.here is None:
            continue
        frame.here.session = {}
        frame.here.is_cut_off = False
        name = fold.index.here(frame).node.name
        result = frame.steps.get(name)
        if result is not None:
            frame.steps[name] = result.without(*_OF_SESSIONS)
