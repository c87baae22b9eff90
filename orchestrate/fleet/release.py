"""Gives back what a run holds on its machine, when its stub here is removed."""

from __future__ import annotations

from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.stub import read_stub
from orchestrate.state.runs import Run

_ANSWER_S = 60.0


def release(run: Run) -> None:
    """Remove the run's seat there; a machine that is silent, or a run at work, refuses it."""
    stub = read_stub(run)
    if stub is not None:
        order = {"protocol": PROTOCOL, "seat": stub.seat.to_json()}
        ssh.ask(stub.host, ("seat", "remove"), order, _ANSWER_S)
