"""Tells whether programs of a run still run although no orchestrator waits for them."""

from __future__ import annotations

from orchestrate.execute.liveness import attempts_at_work, is_keeper_alive
from orchestrate.state.address import NOTIFICATION
from orchestrate.state.runs import Run
from orchestrate.view.run_view import RunView


def are_programs_left(view: RunView) -> bool:
    """Does a program of the run still run although no process waits for it? `resume` adopts it."""
    return not view.is_live and do_programs_run(view.run)


def do_programs_run(run: Run) -> bool:
    """Does a program of one of its steps still run?

    The keeper is asked, for it may have begun what the run has not yet on record: the program that
    was sent ahead of the step before it.
    """
    return any(not one.startswith(NOTIFICATION) for one in attempts_at_work(run.root))


def is_kept(run: Run) -> bool:
    """Does the run's keeper live, or a warden that is ending a program?"""
    return is_keeper_alive(run.root)
