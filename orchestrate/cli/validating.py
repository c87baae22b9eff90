"""`validate FILE...` without flags, as editors and hooks call it all day."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrate.app.definitions.check import check_files
from orchestrate.app.workspaces import workspace_of
from orchestrate.diagnostics import worst_code
from orchestrate.show.checked_files import files_text
from orchestrate.show.output import answer, note


def validate_files(names: Sequence[str]) -> int:
    """Check each file once, and give the exit code of the worst."""
    checked = check_files(names, workspace_of(None), note)
    answer(files_text(checked, strict=False))
    return worst_code(checked)
