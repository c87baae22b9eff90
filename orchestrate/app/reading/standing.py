"""How a run stands, as `status` and the console tell it."""

from __future__ import annotations

import shlex
from typing import Any

from orchestrate.app.ending.kept_programs import are_programs_left
from orchestrate.execute.place import is_same_place, place_of
from orchestrate.state.result import StepResult
from orchestrate.view.place import Place
from orchestrate.view.run_view import RunView
from orchestrate.view.status_document import status_document


def takeovers(view: RunView) -> list[str]:
    """A machine has one session. Of other runs it is those of the steps at the cursors, or else
    that of the step that ended last. None while the run works: two in one session would lose a
    turn. None of a copy that was not resumed yet: they are the original's."""
    state = view.state
    if view.is_live or not is_same_place(state.place, place_of(str(view.run.root))):
        return []
    found: list[tuple[str, str]] = []
    if state.session.id and state.session.is_created:
        agent = state.session.agent or str(state.settings.get("backend", "claude-code"))
        found = [(agent, state.session.id)]
    if not found:
        found = [_session_in(at.result) for at in view.cursors]
    if not any(session for _, session in found):
        results = sorted(state.root.steps.values(), key=lambda result: result.completed_at)
        found = [
            _session_in(result)
            for result in results
            if result.session_id is not None and result.from_run is None
        ][-1:]
    commands = [_command(agent, session) for agent, session in found if session]
    return [command for command in dict.fromkeys(commands) if command]


def _session_in(result: StepResult) -> tuple[str, str]:
    return result.backend, result.session_id or ""


def _command(agent: str, session: str) -> str:
    from orchestrate.agents.registry import is_program, make_agent

    if not agent or not is_program(agent):
        return ""
    command = make_agent(agent).takeover(session)
    return "" if command is None else shlex.join(command)


def standing_of(view: RunView, place: Place, now: float) -> dict[str, Any]:
    programs_left = are_programs_left(view)
    # An agent that still works in its session would lose a turn, or the person would.
    by_hand = [] if programs_left else takeovers(view)
    return status_document(view, place, now, programs_left=programs_left, takeovers=by_hand)
