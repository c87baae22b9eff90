"""What `status` answers: finds the run, records what its clock has decided, and draws it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.standing import standing_of
from orchestrate.cli.later import later
from orchestrate.show.output import answer, answer_json, note_once
from orchestrate.show.status import draw_status
from orchestrate.view.place import Place
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    import click

_invoke = later("cli.group:invoke")


def show_status(
    ctx: click.Context | None, name: str, place: Place, *, watches: bool, as_json: bool
) -> int:
    _, found, _ = find_stored(name, place, tell_fault=note_once)
    if watches and summary_of(found).status == "running":
        return _invoke(ctx, "attach", run=found.id, **place.options)
    view = settled_view(found)
    document = standing_of(view, place, time.time())
    if as_json:
        answer_json(document)
    else:
        answer(draw_status(document, view.ending, view.giving_up))
    return view.exit_code if watches else 0
