"""The fold: the only way a `RunState` changes. Deterministic, and as fast at step 100,000.

An event says what happened at a frame's cursor; `travel.py` knows where that leads.
"""

from __future__ import annotations

from typing import Any

from orchestrate.plan.nodes import FAILED, OK, SKIPPED, Gate, Node, target_of
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
from orchestrate.state.model import (
    Ending,
    Frame,
    Index,
    RunState,
    Session,
    frames_below,
    plan_frame,
)
from orchestrate.state.times import timestamp
from orchestrate.state.travel import (
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

# What an agent's turn may report.
_FIGURES = ("cost_usd", "input_tokens", "output_tokens")


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
            state.session.id = event.session
            state.session.is_created = True
            state.session.agent = event.agent
        case SessionChosen():
            state.session = Session(event.session, agent=event.agent)
        case Restarted():
            _restart(index, state, event)
        case RunResumed():
            state.clock = event.clock or state.clock
            _resume(Fold(index, state, event.at), event)
        case RunEnded():
            state.ending = Ending(event.status, event.reason, event.code)
            state.status = event.status
            state.reason = event.reason
            state.completed_at = event.at if event.status != "paused" else None
            _nothing_runs(index, state)
        case RunStarted() | Gap():
            return
    state.updated_at = event.at


# Steps.


def _start_attempt(index: Index, state: RunState, event: StepStarted) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    begin_visit(state, frame, here, event.at)
    here.phase = "running"
    here.attempt = event.attempt
    here.attempt_since = event.at
    here.tries += 1
    name = index.place(frame.plan, event.node).node.name
    frame.steps[name] = {
        "status": "running",
        "exit_code": None,
        "started_at": timestamp(here.since),
        "attempts": event.attempt,
        **event.about,
    }


def _end_attempt(index: Index, state: RunState, event: AttemptEnded) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    here.attempt = max(here.attempt, event.attempt)
    here.phase = "arriving"
    match event.why:
        case "failed":
            here.phase = "resting"
            here.rest_until = event.at + event.rest_s
        case "stopped" | "lost":
            # Neither was the step's own fault.
            here.tries = max(here.tries - 1, 0)
        case "reminded":
            here.tries = max(here.tries - 1, 0)
            here.turn = dict(event.result.get("turn") or {})
            here.turn["spent"] = {
                name: event.result[name] for name in _FIGURES if name in event.result
            }
    result = {key: value for key, value in event.result.items() if key != "turn"}
    name = index.place(frame.plan, event.node).node.name
    status = "running" if event.why in ("failed", "reminded") else "pending"
    frame.steps[name] = {**result, "status": status, "last_attempt": event.why}
    _count_costs(state, result)


def _finish_step(fold: Fold, event: StepFinished) -> None:
    state = fold.state
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    if event.label != SKIPPED:
        begin_visit(state, frame, here, event.at)
    else:
        frame.visits[event.node] = event.visit
        state.skipped.append(_skip_record(node, event.result))
    _count_costs(state, event.result)
    frame.steps[node.name] = _with_spent(event.result, here.turn.get("spent", {}))
    if event.has_value:
        keep_value(frame, node, event.value)
    target = node.follow if event.choice == "continue" else target_of(node, event.label)
    go_on(fold, frame, node, event.label, target)


def _with_spent(result: dict[str, Any], spent: dict[str, Any]) -> dict[str, Any]:
    """The result of a step that was reminded: what both of its turns have used."""
    sums = {
        name: round(spent[name] + result.get(name, 0), 10)
        for name in _FIGURES
        if spent.get(name) is not None
    }
    return {**result, **sums} if sums else result


def _skip_record(node: Node, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": node.name,
        "reason": result.get("reason", ""),
        **({"condition": result["condition"]} if "condition" in result else {}),
    }


def _count_costs(state: RunState, result: dict[str, Any]) -> None:
    """An agent's turn; the counters that it did not report stay unknown."""
    if "agent" not in result or not result.get("billed", True):
        return
    costs = state.costs
    costs.turns += 1
    if result.get("cost_usd") is None:
        costs.unreported += 1
    # Without the dust of binary fractions.
    costs.cost_usd = round(costs.cost_usd + (result.get("cost_usd") or 0.0), 10)
    costs.input_tokens += result.get("input_tokens") or 0
    costs.output_tokens += result.get("output_tokens") or 0
    totals = result.get("session_totals")
    if totals:
        state.session.totals = dict(totals)


def _open_gate(state: RunState, event: GateOpened) -> None:
    frame = frame_of(state, event.frame)
    here = here_of(frame, event.node, event.visit)
    here.phase = "asking"
    frame.visits[event.node] = event.visit
    state.approvals.append(
        {
            "stage": event.stage,
            "status": "pending",
            "prompt": event.prompt,
            "requested_at": timestamp(event.at),
            "expires_at": None if event.expires_at is None else timestamp(event.expires_at),
            "default": event.default,
            "frame": event.frame,
            "node": event.node,
            "visit": event.visit,
        }
    )


def _decide_gate(fold: Fold, event: GateDecided) -> None:
    frame = frame_of(fold.state, event.frame)
    here_of(frame, event.node, event.visit)
    node = fold.index.place(frame.plan, event.node).node
    assert isinstance(node.op, Gate)
    for record in reversed(fold.state.approvals):
        if (record["frame"], record["node"], record["visit"]) == (
            event.frame,
            event.node,
            event.visit,
        ):
            record |= {
                "status": event.decision,
                "decided_at": timestamp(event.at),
                "decided_by": event.by,
                "message": event.message,
            }
            break
    if event.decision == "approved":
        plan_frame(frame).approval = event.message
    label = f"@{event.decision}"
    go_on(fold, frame, node, label, target_of(node, label))


# The run as a whole.


def _restart(index: Index, state: RunState, event: Restarted) -> None:
    """A fresh plan in a fresh session; only what was spent and done stays on record (A §3.2)."""
    block = index.plan(event.plan).blocks[0]
    for node, visits in state.root.visits.items():
        state.earlier_visits[node] = state.earlier_visits.get(node, 0) + visits
    root = Frame(key=f"restart-{state.restarts + 1}", plan=event.plan, block=block.id)
    root.steps = state.root.steps
    state.frames = {root.key: root}
    state.root = root
    state.restart = None
    state.restarts += 1
    state.steps_run = 0
    state.session = Session(event.session)
    state.machine_started = event.at
    arrive(root, block.entry)


def _nothing_runs(index: Index, state: RunState) -> None:
    """The run has stopped: a step that is not over waits to be started again."""
    for frame in frames_below(state.root):
        if frame.here is None:
            continue
        name = index.here(frame).node.name
        result = frame.steps.get(name)
        if isinstance(result, dict) and result.get("status") == "running":
            frame.steps[name] = {**result, "status": "pending"}


def _resume(fold: Fold, event: RunResumed) -> None:
    state = fold.state
    if state.root.here is not None or state.restart is not None:
        # Else the plan is at its end already, and only that was not yet written down.
        state.ending = None
    state.status = "running"
    state.reason = None
    state.completed_at = None
    state.settings = {**state.settings, **event.settings}
    for frame in list(frames_below(state.root)):
        here = frame.here
        if frame.call is not None:
            result = {**frame.steps[frame.call.owner], "status": "running", "exit_code": None}
            result.pop("error", None)
            frame.steps[frame.call.owner] = result
        if here is None or here.phase != "failed":
            continue
        # Its time begins anew: whoever mended the cause may have taken an hour for it.
        here.since = fold.at
        loop = frame.loops.get(here.node)
        if loop is None or loop.is_closed:
            here.phase = "arriving"
            here.tries = 0
            here.turn = {}
            continue
        # The failed item's file has been put aside: the loop goes on behind it.
        here.phase = "open"
        loop.is_stopping = False
        open_items(fold.index, state, frame)
        if loop.is_spent and not loop.open:
            finish_loop(fold, frame, loop, OK)
