"""`orchestrate why`: why steps ran, ran again, were taken over, or wait."""

from __future__ import annotations

import click

from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.secrets import secrets_of_run
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.cli.run_and_step import run_and_step
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.show.why_text import why_text
from orchestrate.view.place import Place
from orchestrate.view.why import why as reasons_of


@click.command(short_help="Say why a step ran, ran again, was reused or waits.")
@run_argument
@click.argument("step", metavar="[STEP]", required=False)
@place_options
@json_option
def why(run: str, step: str | None, place: Place, as_json: bool) -> int:
    """Say why the steps of a run ran, ran again, were reused or wait; of all, or of STEP.

    After an edit (`resume --edited`, `--redo`) a step runs again if a part of its key has changed;
    that part is named with both values, masked, and the step's line. An argument that names no run
    is a STEP of the latest run.
    """
    run, step = run_and_step(run, step, place)
    _, found, workspace = find_stored(run, place, tell_fault=note_once)
    mask = secrets_of_run(found, workspace).data
    steps = mask(reasons_of(found, step))
    if as_json:
        answer_json({"run_id": found.id, "steps": steps})
        return 0
    for one in steps:
        answer(why_text(one))
    return 0
