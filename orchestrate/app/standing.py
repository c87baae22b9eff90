"""How a run stands, as `status` and the console tell it."""

from __future__ import annotations

from typing import Any

from orchestrate.app.kept_programs import are_programs_left
from orchestrate.app.takeover import takeovers
from orchestrate.view.place import Place
from orchestrate.view.run_view import RunView
from orchestrate.view.status_document import status_document


def standing_of(view: RunView, place: Place, now: float) -> dict[str, Any]:
    programs_left = are_programs_left(view)
    # An agent that still works in its session would lose a turn, or the person would.
    by_hand = [] if programs_left else takeovers(view)
    return status_document(view, place, now, programs_left=programs_left, takeovers=by_hand)
