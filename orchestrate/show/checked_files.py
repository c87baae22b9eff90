"""What `validate` found, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orchestrate.diagnostics import CheckedFile, Diagnostic
from orchestrate.plan.visible import plural, visible
from orchestrate.show.findings import count_line, draw
from orchestrate.show.output import wants_colour


def files_text(files: Sequence[CheckedFile], *, strict: bool = False) -> str:
    """What was found in each file, and how much in all."""
    parts: list[str] = []
    told: set[Diagnostic] = set()
    for file in files:
        if not file.diagnostics:
            steps = plural(file.steps - file.looped, "step")
            if file.looped:
                steps += f", {file.looped} more in loops"
            parts.append(f"{visible(file.file)}: valid {file.dialect} ({steps})\n")
            continue
        fresh = [finding for finding in file.diagnostics if finding not in told]
        told.update(fresh)
        parts.append(draw(fresh, file.dropped, colour=wants_colour(sys.stdout)))
    if told or len(files) > 1:
        mild = told and not any(finding.severity == "error" for finding in told)
        note = "; --strict makes warnings errors" if strict and mild else ""
        parts.append(f"{count_line(told)} in {plural(len(files), 'file')}{note}\n")
    return "".join(parts)


def checked_line(checked: CheckedFile) -> str:
    """Whether one file is valid."""
    valid = f"valid {checked.dialect}" if checked.valid else "not valid"
    also = f" ({count_line(checked.diagnostics)})" if checked.diagnostics else ""
    return f"{visible(checked.file)}: {valid}{also}\n"
