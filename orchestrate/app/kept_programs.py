"""Tells whether programs of a run still run although no orchestrator waits for them."""

from __future__ import annotations

from typing import Any

from orchestrate.execute.liveness import is_keeper_alive, is_running
from orchestrate.state.runs import Run
from orchestrate.view.cursors import cursors_in
from orchestrate.view.run_view import RunView


def are_programs_left(sight: RunView) -> bool:
    """Does a program of the run still run although nobody waits for it? `resume` adopts it."""
    return not sight.is_live and do_programs_run(sight.run, sight.document)


def do_programs_run(run: Run, document: dict[str, Any]) -> bool:
    """Does a program of a step at which the run stands still run?"""
    return is_kept(run) and any(
        is_running(run.root, at.address.attempt_id)
        for at in cursors_in(document)
        if at.phase == "running"
    )


def is_kept(run: Run) -> bool:
    """Does the run's keeper live, or a warden that is ending a program?"""
    return is_keeper_alive(run.root)
