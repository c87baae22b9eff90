"""What `status` answers: finds the run, records what its clock has decided, and draws it."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.app.decide import settled_view
from orchestrate.app.kept_programs import are_programs_left
from orchestrate.app.open_run import find_stored
from orchestrate.app.takeover import takeovers
from orchestrate.cli.commands.attach import watch_run
from orchestrate.cli.commands.wait import code_of
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.show.status import draw_status
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import RunView
from orchestrate.view.status_document import status_document


def show_status(name: str, place: Place, *, watches: bool, as_json: bool) -> int:
    _, run, workspace = find_stored(name, place.working_dir, place.state_dir, tell_fault=note_once)
    if watches and summary_of(run).status == "running":
        return watch_run(run, workspace, place, None)
    view = settled_view(run)
    document = _document(view, place)
    if as_json:
        answer_json(document)
    else:
        answer(draw_status(document, view.ending))
    return code_of(view) if watches else 0


def _document(view: RunView, place: Place) -> dict[str, Any]:
    programs_left = are_programs_left(view)
    # An agent that still works in its session would lose a turn, or the person would.
    by_hand = [] if programs_left else takeovers(view)
    return status_document(view, place, time.time(), programs_left=programs_left, takeovers=by_hand)
