"""What `[RUN] [STEP]` of a command means when only one of them is given."""

from __future__ import annotations

from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.show.output import note_once
from orchestrate.state.runs import LATEST, may_name_run
from orchestrate.view.place import Place


def run_and_step(run: str, step: str | None, place: Place) -> tuple[str, str | None]:
    """One argument alone is a run when it names one, else a step of the latest run."""
    runs = runs_of(place, tell_fault=note_once)
    is_run = step is not None or may_name_run(runs, run)
    return (run, step) if is_run else (LATEST, run)
