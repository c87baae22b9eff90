"""The record of a run's gates: one entry a visit, decided once."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from orchestrate.record import replace
from orchestrate.state.address import Address, Called, FrameKey, name_of_node
from orchestrate.state.events import CallExpired, GateDecided, GateOpened
from orchestrate.state.model import Frame, RunState, frames_below
from orchestrate.state.result import Approval
from orchestrate.state.times import seconds_of, timestamp

# How the node of a gate that follows a stage is named, behind which the stage's name stands.
OF_STAGE = "approve:"


def add_opened(approvals: list[Approval], event: GateOpened) -> None:
    """A gate asks; one whose decision an edit takes over stays the gate that was asked then."""
    for position, gate in enumerate(approvals) if event.reused else ():
        if _address(gate).text == event.reused:
            approvals[position] = replace(
                gate, frame=event.frame, node=event.node, visit=event.visit
            )
            return
    expires = None if event.expires_at is None else timestamp(event.expires_at)
    approvals.append(
        Approval(
            event.stage,
            "pending",
            event.prompt,
            timestamp(event.at),
            expires,
            event.default,
            event.frame,
            event.node,
            event.visit,
        )
    )


def is_of_stage(node: str) -> bool:
    """Is a node the gate that follows a stage? That is not a step of its own."""
    return node.startswith(OF_STAGE)


def _address(gate: Approval) -> Address:
    frame, node, visit = gate.visited
    return Address(FrameKey.parse(frame), name_of_node(node), visit)


def path_of_gate(gate: Approval) -> str:
    """Which of the gates of one name it is: `Loop[1]/Call/Ask`."""
    return FrameKey.parse(gate.frame).step(gate.stage).shown


def gate_names(gates: list[Approval]) -> list[str]:
    """What each is called so that no other is meant: by its stage, or by its path."""
    called = [(gate.stage, path_of_gate(gate)) for gate in gates]
    # A gate that was asked more than once is one.
    paths = Counter(stage for stage, _ in set(called))
    return [stage if paths[stage] == 1 else path for stage, path in called]


def add_decision(approvals: list[Approval], event: GateDecided) -> None:
    for position in reversed(range(len(approvals))):
        gate = approvals[position]
        if gate.visited == (event.frame, event.node, event.visit):
            if gate.status != "pending":  # it was taken over
                return
            approvals[position] = replace(
                gate,
                status=event.decision,
                decided_at=timestamp(event.at),
                decided_by=event.by,
                message=event.message,
            )
            return


def expire_asked(approvals: list[Approval], event: CallExpired) -> None:
    """A called recipe has run out of time: what it asked for needs no decision any more."""
    caller = FrameKey.parse(event.frame)
    for position, gate in enumerate(approvals):
        asked = FrameKey.parse(gate.frame)
        inner = asked.parts[len(caller.parts) :][:1]
        called = [(part.step, part.visit) for part in inner if isinstance(part, Called)]
        is_inside = caller.covers(asked) and called == [(name_of_node(event.node), event.visit)]
        if gate.status == "pending" and is_inside:
            at = timestamp(event.at)
            approvals[position] = replace(
                gate, status="expired", decided_at=at, decided_by="timeout"
            )


def asking_frames(state: RunState) -> list[Frame]:
    """The frames that wait for a decision."""
    return [
        frame
        for frame in frames_below(state.root)
        if frame.here is not None and frame.here.phase == "asking"
    ]


def overdue(state: RunState, now: float) -> list[GateDecided]:
    """The decisions that the clock has made; the next reader applies them (rulings §8)."""
    decided = (decided_by_clock(state, frame, now) for frame in asking_frames(state))
    return [decision for decision in decided if decision is not None]


def decided_by_clock(state: RunState, frame: Frame, now: float) -> GateDecided | None:
    gate = pending_gate(state, frame)
    if gate.expires_at is None or now < seconds_of(gate.expires_at):
        return None
    decision: Literal["approved", "denied"] = "approved" if gate.default == "approve" else "denied"
    return GateDecided(*gate.visited, now, decision, "timeout")


def pending_gate(state: RunState, frame: Frame) -> Approval:
    """The record of the gate at a frame's cursor."""
    assert frame.here is not None
    visited = (frame.key, frame.here.node, frame.here.visit)
    return next(gate for gate in reversed(state.approvals) if gate.visited == visited)


def without_pending(gates: list[Approval]) -> list[Approval]:
    """The gates after an edit: one that still asked is asked anew where the run comes to it."""
    return [replace(gate, status="expired") if gate.status == "pending" else gate for gate in gates]
