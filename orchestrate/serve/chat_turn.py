"""The process of one turn of a chat: it reads what is wanted, takes the turn, and says how it went.

It is a process of its own, like every run: killing the server does not touch it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.working.chat import chat
from orchestrate.app.working.reporter import Reporter
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import OrchestrateError, SessionInUseError
from orchestrate.state.result import StepResult
from orchestrate.state.runs import Run

Json = dict[str, Any]


class _Teller(Reporter):
    def started(self, run: Run) -> None:
        print(json.dumps({"run_id": run.id}), flush=True)


def take_turn(wanted: Json) -> Json:
    """`wanted` has text, workspace, session, new_session, backend and system_prompt."""
    settings = RunSettings(
        backend=wanted["backend"] or None,
        session=wanted["session"] or None,
        system_prompt=wanted["system_prompt"] or None,
    )
    try:
        outcome = chat(
            wanted["text"],
            workspace_of(wanted["workspace"]),
            _Teller(),
            settings=settings,
            new_session=wanted["new_session"] or None,
        )
    except OrchestrateError as error:
        is_locked = isinstance(error, SessionInUseError)
        return {"success": False, "error": error.message, "locked": is_locked, "text": ""}
    state = outcome.store.state
    result = state.root.steps.get("message", StepResult())
    is_well = outcome.ending.status == "completed"
    return {
        "success": is_well,
        "error": None if is_well else result.message or outcome.ending.reason,
        "locked": outcome.ending.kind == "session-locked",
        "session_id": state.session.id,
        "text": _answer(outcome.store.run, result),
        "usage": {"input_tokens": result.input_tokens, "output_tokens": result.output_tokens},
        "cost_usd": result.cost_usd,
    }


def _answer(run: Run, result: StepResult) -> str:
    """The whole answer lies in a file where it is long."""
    for path in run.logs.glob("*.answer.txt"):
        return path.read_text("utf-8", "replace")
    return result.output or ""


def main() -> None:
    print(json.dumps(take_turn(json.load(sys.stdin))), flush=True)


if __name__ == "__main__":
    main()
