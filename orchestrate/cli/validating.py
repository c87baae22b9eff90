"""Checks files and answers with what was found, as `validate` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from orchestrate.app.check import check_files
from orchestrate.app.workspaces import workspace_of
from orchestrate.diagnostics import CheckedFile
from orchestrate.exits import DONE
from orchestrate.show.checked_files import files_text
from orchestrate.show.output import answer, note


def validate_files(
    names: Sequence[str],
    working_dir: str | None = None,
    tell: Callable[[list[CheckedFile]], None] | None = None,
    *,
    strict: bool = False,
    **more: Any,
) -> int:
    """Check each file once, tell it as text or otherwise, and give the exit code of the worst."""
    checked = check_files(names, workspace_of(working_dir), note, strict=strict, **more)
    if tell is None:
        answer(files_text(checked, strict=strict))
    else:
        tell(checked)
    return max((file.exit_code for file in checked if not file.valid), default=DONE)
