"""`orchestrate watch`: runs or checks a recipe again whenever a file of it changes."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click

from orchestrate.app.definitions.watch import WatchedRecipe, keep_watch
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.commands.run import run
from orchestrate.cli.main import tell
from orchestrate.diagnostics import CheckedFile
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.exits import INTERRUPTED
from orchestrate.show.checked_files import checked_line
from orchestrate.show.findings import draw
from orchestrate.show.output import answer, answer_json, finish_output, note, wants_colour

# What makes no sense again and again.
_NOT_WATCHED = ("dry_run", "detach", "events")


@click.command(short_help="Run a recipe again whenever one of its files changes.")
@click.option("--validate", "validates", is_flag=True,
              help="Only check the recipe, and run nothing.")  # fmt: skip
def watch(file: str, validates: bool, working_dir: str | None, as_json: bool, **flags: Any) -> int:
    """Run a recipe, and again whenever one of its files changes.

    Watches the recipe, all that it includes or calls, its prompts and its agents. A change during a
    run waits until the run ends. Ctrl-C ends the watch and stops a run at work, so that it can be
    resumed.
    """
    flags |= {"file": file, "working_dir": working_dir, "as_json": as_json}
    watched = WatchedRecipe(
        file,
        workspace_of(working_dir),
        show=lambda checked: _show(checked, as_json=as_json),
        run=None if validates else lambda told: _run(flags, told, is_first=watched.count == 1),
        note=note,
    )
    try:
        code = keep_watch(watched)
    except KeyboardInterrupt:
        code = INTERRUPTED
    note("stopped watching\n")
    if as_json:
        answer_json({"file": file, "count": watched.count, "rounds": watched.rounds})
    return code


# After the command's own: every flag of `run`, and its FILE.
watch.params += [parameter for parameter in run.params if parameter.name not in _NOT_WATCHED]


def _show(checked: CheckedFile, *, as_json: bool) -> None:
    note(draw(checked.diagnostics, checked.dropped, colour=wants_colour(sys.stderr)))
    if not as_json:
        answer(checked_line(checked))
        finish_output()


def _run(flags: dict[str, Any], told: dict[str, Any], *, is_first: bool) -> int:
    assert run.callback is not None
    arguments = flags | {str(p.name): False for p in run.params if p.name in _NOT_WATCHED}
    heard = StringIO()
    try:
        if not flags["as_json"]:
            code = int(run.callback(**arguments))
            finish_output()
            return code
        with redirect_stdout(heard):
            code = int(run.callback(**arguments))
        document = json.loads(heard.getvalue())
        told |= {name: document.get(name) for name in ("run_id", "status", "reason")}
        return code
    except OrchestrateError as error:
        if isinstance(error, UsageError) and is_first:
            # Flags do not change any more: nothing that is edited would help.
            raise
        # What kept a run from starting; the next change may repair it.
        tell(error, as_json=False)
        told["error"] = error.message
        return error.exit_code
