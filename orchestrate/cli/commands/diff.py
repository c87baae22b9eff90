"""`orchestrate diff`: what a step or a run changed, and how two runs differ."""

from __future__ import annotations

import click

from orchestrate.app.files.compare_runs import compare_runs, patch_of
from orchestrate.app.files.diff_files import diff_files
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.app.secrets import secrets_of_run
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.cli.run_and_step import run_and_step
from orchestrate.plan.visible import visible
from orchestrate.show.diff_text import difference_line, patch_text
from orchestrate.show.output import answer, answer_json, note, note_once
from orchestrate.state.runs import may_name_run
from orchestrate.view.place import Place

_LETTERS = {"added": "A", "changed": "M", "deleted": "D", "mode": "m"}


@click.command(short_help="Show what a step or a run changed, or how two runs differ.")
@run_argument
@click.argument("what", metavar="[STEP[..STEP] | RUN]", required=False)
@click.option("--files", "only_files", is_flag=True, help="List the files, without their lines.")
@place_options
@json_option
def diff(
    run: str,
    what: str | None,
    only_files: bool,
    place: Place,
    as_json: bool,
) -> int:
    """Show what a run changed in the files of its workspace: all of it, STEP, or STEP to STEP.

    With a second run: how the two differ in definition, inputs, path, outcomes, prompts, answers,
    files, time and cost, with the lines that differ. Files are known from the checkpoints of the
    workspace; steps that share one are named.
    """
    run, what = run_and_step(run, what, place)
    _, found, workspace = find_stored(run, place, tell_fault=note_once)
    if what is not None and may_name_run(runs_of(place), what):
        _, other, _ = find_stored(what, place, tell_fault=note_once)
        mask = secrets_of_run(found, workspace).data
        differences = mask(compare_runs(found, other))
        if as_json:
            answer_json({"first": found.id, "second": other.id, "differences": differences})
        else:
            answer("".join(map(difference_line, differences)) or "no difference\n")
            if not only_files:
                answer(mask(patch_text(patch_of(found, other))))
        return 0
    changed = diff_files(found, what)
    if as_json:
        answer_json({"run_id": found.id, **changed.to_json()})
        return 0
    for text in changed.notes:
        note(f"{text}\n")
    if only_files:
        answer("".join(f"{_LETTERS[one.kind]} {visible(one.path)}\n" for one in changed.changes))
    else:
        answer(patch_text(changed.patch))
    return 0
