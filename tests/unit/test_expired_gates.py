"""A recipe that ran out of time asks for nothing any more; what others ask for stays open."""

from __future__ import annotations

import pytest

from orchestrate.state.address import FrameKey
from orchestrate.state.events import CallExpired
from orchestrate.state.gates import expire_asked
from orchestrate.state.result import Approval


def asked(frame: str) -> Approval:
    at = "2026-01-01T00:00:00.000Z"
    return Approval("one", "pending", "Go on?", at, None, "deny", frame, "one/@gate", 1)


MAIN = FrameKey()
ITEM, NEXT = MAIN.item("Each", 0, 1), MAIN.item("Each", 1, 1)


@pytest.mark.parametrize(
    ("caller", "frame", "status"),
    [
        (MAIN, MAIN.call("call", 1, 1), "expired"),
        (MAIN, MAIN.call("call", 1, 2).call("inner", 1, 1), "expired"),
        (MAIN, MAIN.call("call", 2, 1), "pending"),
        (MAIN, MAIN.call("other", 1, 1), "pending"),
        (ITEM, ITEM.call("call", 1, 1), "expired"),
        (ITEM, NEXT.call("call", 1, 1), "pending"),
        (MAIN, MAIN, "pending"),
    ],
)
def test_a_gate_expires_with_the_call_that_it_stands_in(
    caller: FrameKey, frame: FrameKey, status: str
) -> None:
    approvals = [asked(frame.text)]
    expire_asked(approvals, CallExpired(caller.text, "call", 1, 1.0, 60.0))
    assert approvals[0].status == status
    decided = "" if status == "pending" else "timeout"
    assert approvals[0].decided_by == decided
