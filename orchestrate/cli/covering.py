"""What `run --cover` says: which routes were taken, and which cannot be."""

from __future__ import annotations

from orchestrate.app.starting.cover import cover, covered_json
from orchestrate.app.starting.prepare import Prepared
from orchestrate.exits import DONE, FAILED
from orchestrate.show.cover_text import cover_text
from orchestrate.show.output import answer, answer_json


def show_cover(prepared: Prepared, *, as_json: bool) -> int:
    """Rehearse every route; a step that fails by itself makes the command fail."""
    covered = cover(prepared)
    document = covered_json(covered, prepared.program)
    if as_json:
        answer_json(document)
    else:
        answer(cover_text(document))
    return FAILED if covered.failed else DONE
