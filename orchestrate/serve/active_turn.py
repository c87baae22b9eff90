"""What goes on in a session right now: what was asked, and what its agent has done about it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.app.secrets import secrets_of_run
from orchestrate.errors import OrchestrateError
from orchestrate.serve.rows import make_row
from orchestrate.serve.sessions import text_of
from orchestrate.serve.telling import CHAT
from orchestrate.serve.turns import turns_of
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import find_entry, source_of
from orchestrate.view.transcripts import TurnTranscript, read_turn

if TYPE_CHECKING:
    from orchestrate.serve.sessions import ListedSession
    from orchestrate.state.runs import Run
    from orchestrate.view.run_view import RunView

Json = dict[str, Any]
_MOST_PASSAGES = 20


def active_run(session: ListedSession) -> str | None:
    """The id of the recipe or turn that is at work or parked in a session."""
    found = _active(session)
    return None if found is None else found[0].id


def _active(session: ListedSession) -> tuple[Run, RunView] | None:
    for run in reversed(session.runs):
        try:
            view = run_view(run)
        except OrchestrateError:
            continue
        is_parked = bool(view.waiting_gates) and view.state.definition != CHAT
        is_there = session.id in (view.state.session.id, run.id)
        if is_there and (view.is_live or is_parked):
            return run, view
    return None


def activity_in(session: ListedSession) -> Json | None:
    """What the active run does: its history has a turn only once that has ended."""
    found = _active(session)
    if found is None:
        return None
    run, view = found
    row = make_row(session.workspace, summary_of(run), view, time.time())
    agent, asked, turn = "", "", TurnTranscript()
    if view.state.definition == CHAT and not turns_of(run):
        message = str(view.state.root.variables.get("message", ""))
        asked = secrets_of_run(run, session.workspace).text(message)
    with suppress(OrchestrateError):
        for cursor in view.cursors[:1]:
            entry = find_entry(run, view.state, cursor.path)
            if entry.is_running and entry.result.backend:
                agent = entry.result.backend
                asked = text_of(source_of(run, entry, "prompt")) or asked
                turn = read_turn(run, entry, transcripts_of(run, session.workspace), _MOST_PASSAGES)
    return {
        "run_id": run.id,
        "is_chat": view.state.definition == CHAT,
        "state": row["state"],
        "waits": row["waits"],
        "step": row["step"],
        "agent": agent,
        "asked": asked,
        **turn_json(turn),
    }


def turn_json(turn: TurnTranscript) -> Json:
    """The passages of a turn for programs."""
    return {
        "left_out": turn.left_out,
        "doing": {"activity": turn.doing.activity, "words": turn.doing.words},
        "passages": [
            {"number": one.number, "kind": one.kind, "text": one.text, "tool": one.tool,
             "error": one.is_error, "left_out": one.left_out}
            for one in turn.passages
        ],
    }  # fmt: skip
