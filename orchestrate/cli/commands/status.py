"""`orchestrate status`: how a run stands, what it is doing or waiting for, and how to go on."""

from __future__ import annotations

import time
from typing import Any

import click

from orchestrate.app.decide import settled_view
from orchestrate.app.kept_programs import are_programs_left
from orchestrate.app.open_run import find_stored
from orchestrate.app.takeover import takeovers
from orchestrate.cli.options import json_option, run_argument, state_dir_option, working_dir_option
from orchestrate.errors import UsageError
from orchestrate.show.output import answer, answer_json
from orchestrate.show.status import draw_status
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import RunView
from orchestrate.view.status_document import status_document


@click.command(short_help="Show how a run stands.")
@run_argument
@click.option("--watch", "watches", is_flag=True,
              help="Go on showing it until it ends, as `attach` does.")  # fmt: skip
@state_dir_option
@working_dir_option
@json_option
def status(
    run: str, watches: bool, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """Show how a run stands: RUN is its id, the beginning of one, or `latest`.

    It can be asked at any time, also while the run works. An approval whose time is up is decided
    by its default.
    """
    if watches and as_json:
        raise UsageError("--watch and --json exclude each other", "`wait --json` waits for the end")
    _, found, workspace = find_stored(run, working_dir, state_dir, is_looking=True)
    place = Place(working_dir, state_dir)
    if watches and summary_of(found).status == "running":
        from orchestrate.cli.commands.attach import watch_run

        return watch_run(found, workspace, place, None)
    view = settled_view(found)
    document = _document(view, place)
    if as_json:
        answer_json(document)
    else:
        answer(draw_status(document, view.ending))
    if watches:
        from orchestrate.cli.commands.wait import code_of

        return code_of(view)
    return 0


def _document(view: RunView, place: Place) -> dict[str, Any]:
    programs_left = are_programs_left(view)
    # An agent that still works in its session would lose a turn, or the person would.
    by_hand = [] if programs_left else takeovers(view)
    return status_document(view, place, time.time(), programs_left=programs_left, takeovers=by_hand)
