"""`orchestrate rewind`: lets a run and its files stand before a step again."""

from __future__ import annotations

import click

from orchestrate.cli.later import later
from orchestrate.cli.options import json_option, named_run_argument, place_options
from orchestrate.errors import UsageError
from orchestrate.view.place import Place

_rewind_run = later("cli.rewinding:rewind_run")


@click.command(short_help="Put a run and its files back to before a step.")
@named_run_argument
@click.argument("step", metavar="[STEP[@VISIT]]", required=False)
@click.option("--undo", is_flag=True, help="Take the last rewind of this run back.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force",
    is_flag=True,
    help="Go on although HEAD or the index changed, or files are not whole in the checkpoints.",
)
@place_options
@json_option
def rewind(
    run: str,
    step: str | None,
    undo: bool,
    yes: bool,
    force: bool,
    place: Place,
    as_json: bool,
) -> int:
    """Put a run and the files of its workspace back to before STEP, in its newest visit.

    What would be written, deleted and kept is shown first. Only files that the run's checkpoints
    have are touched: nothing ignored, nothing under `.git`, no file that is not of this run. A
    checkpoint of how everything stands is taken first; `--undo` goes back to it. `resume` goes on
    from there.
    """
    if (step is None) != undo:
        raise UsageError("which step?", "name a STEP, or take the last rewind back with --undo")
    return _rewind_run(run, step, place, yes=yes, force=force, as_json=as_json)
