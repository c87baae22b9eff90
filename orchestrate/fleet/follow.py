"""`seat follow`: keeps what the runs of a workspace have published elsewhere up to date.

The console starts it while such a workspace is looked at; it ends with the console.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from orchestrate.errors import OrchestrateError
from orchestrate.exits import DONE
from orchestrate.fleet.away import with_their_status
from orchestrate.fleet.shadow import Shadow
from orchestrate.fleet.stub import read_stub
from orchestrate.state.runs import Run, Runs, list_runs
from orchestrate.view.run_summary import may_go_on_elsewhere, summary_of

_PAUSE_S = 2.0


def follow(folder: Path) -> int:
    """Until the process that has started it ends."""
    parent = os.getppid()
    shadows: dict[str, Shadow] = {}
    while os.getppid() == parent:
        open_runs = [summary_of(run) for run in list_runs(Runs(folder)) if may_go_on_elsewhere(run)]
        # Whoever waits for a run that is over must not find its shadow held by us.
        for run_id in shadows.keys() - {one.run.id for one in open_runs}:
            shadows.pop(run_id).set_at_work(False)
        for summary in with_their_status(open_runs) if open_runs else ():
            run = summary.run
            try:
                _look(shadows, run, summary.status)
            except OrchestrateError:
                continue  # the machine or the remote is silent: what is there is shown
        time.sleep(_PAUSE_S)
    return DONE


def _look(shadows: dict[str, Shadow], run: Run, status: str) -> None:
    stub = read_stub(run)
    if stub is None:
        return
    shadow = shadows.setdefault(run.id, Shadow(run, stub))
    shadow.refresh()
    if status != "unknown":
        shadow.set_at_work(status == "running", stub.host or f"pool {stub.pool}")
