"""The record of a run's gates: one entry a visit, decided once."""

from __future__ import annotations

from orchestrate.record import replace
from orchestrate.state.events import GateDecided, GateOpened
from orchestrate.state.result import Approval
from orchestrate.state.times import timestamp


def add_opened(approvals: list[Approval], event: GateOpened) -> None:
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


def add_decision(approvals: list[Approval], event: GateDecided) -> None:
    for position in reversed(range(len(approvals))):
        if approvals[position].visited == (event.frame, event.node, event.visit):
            approvals[position] = replace(
                approvals[position],
                status=event.decision,
                decided_at=timestamp(event.at),
                decided_by=event.by,
                message=event.message,
            )
            return
