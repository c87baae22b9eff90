"""`plan --estimate`: what a run without flags may take."""

from __future__ import annotations

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.estimate import estimate
from orchestrate.app.starting.prepare import prepare
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import UsageError
from orchestrate.show.estimate import estimate_lines
from orchestrate.show.output import answer, answer_json


def show_estimate(file: str | None, shape: str, working_dir: str | None) -> int:
    """Calls at worst, and what earlier runs have cost."""
    if file is None or shape not in ("text", "json"):
        raise UsageError("--estimate takes a FILE, and text or json", "e.g. plan FILE --estimate")
    prepared = prepare(file, workspace_of(working_dir), RunSettings(), may_lack=True)
    expected = estimate(prepared).to_json()
    if shape == "json":
        answer_json(expected)
    else:
        answer("".join(f"{line}\n" for line in estimate_lines(expected)))
    return 0
