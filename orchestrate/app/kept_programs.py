"""Tells whether programs of a run still run although no orchestrator waits for them."""

from __future__ import annotations

from orchestrate.execute.liveness import is_keeper_alive, is_running
from orchestrate.state.runs import Run
from orchestrate.view.cursors import cursors_in
from orchestrate.view.run_view import RunView


def are_programs_left(view: RunView) -> bool:
    """Does a program of the run still run although no process waits for it? `resume` adopts it."""
    return not view.is_live and do_programs_run(view)


def do_programs_run(view: RunView) -> bool:
    """Does a program of a step at which the run stands still run?"""
    return is_kept(view.run) and any(
        is_running(view.run.root, at.address.attempt_id)
        for at in cursors_in(view.state)
        if at.phase == "running"
    )


def is_kept(run: Run) -> bool:
    """Does the run's keeper live, or a warden that is ending a program?"""
    return is_keeper_alive(run.root)
