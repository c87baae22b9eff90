"""Gives back what a run holds on its machine, when its stub here is removed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from orchestrate.checkpoints.program import own_git
from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.stub import Stub
from orchestrate.fleet.transport import require_git, users_call

_ANSWER_S = 60.0


def release_seat(stub: Stub) -> None:
    """Remove the run's seat there; a machine that is silent, or a run at work, refuses it."""
    order = {"protocol": PROTOCOL, "seat": stub.seat.to_json()}
    ssh.ask(stub.host, ("seat", "remove"), order, _ANSWER_S)


def remove_published(stub: Stub) -> None:
    """Remove what a run has published from the repository that carries runs."""
    program, remote = require_git(), stub.seat.remote
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        store = Path(folder)
        own_git(program, store).output("init", "-q", "--bare", folder)
        pattern = f"refs/orchestrate/{stub.seat.run}/*"
        found = users_call(program, store, "ls-remote", remote, pattern).splitlines()
        names = [line.split()[1] for line in found]
        if names:
            targets = [f":{name}" for name in names]
            users_call(program, store, "push", "-q", "--no-verify", remote, *targets)
