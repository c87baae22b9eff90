"""How a run stands, in a line or a small document, with the commands to go on."""

from __future__ import annotations

from typing import Any

from orchestrate.show.status import standing
from orchestrate.view.advice import next_commands
from orchestrate.view.place import Place
from orchestrate.view.run_view import RunView


def standing_text(view: RunView, place: Place) -> str:
    """How the run stands now, in a line, and the commands to go on."""
    lines = [f"run {view.run.id} {standing(view.status, view.ending, view.giving_up)}"]
    if view.status == "interrupted":
        lines.append("  its process is gone; resume continues what it had begun")
    lines += [f"  go on:  {command}" for command in next_commands(view, place)]
    return "".join(f"{line}\n" for line in lines)


def standing_json(view: RunView, place: Place) -> dict[str, Any]:
    return {
        "run_id": view.run.id,
        "status": view.status,
        "reason": None if view.ending is None else view.ending.reason,
        "exit_code": view.exit_code,
        "next": next_commands(view, place),
    }
