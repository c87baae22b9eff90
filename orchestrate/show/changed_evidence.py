"""The changed files that a person looks at before an answer, as text and for programs."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import visible, visible_lines
from orchestrate.view.inbox import Evidence


def files_lines(evidence: Evidence) -> list[str]:
    """What has changed, each file with its hunks where they were asked for."""
    lines = []
    if evidence.files:
        since = f"since gate '{visible(evidence.files_since)}', " if evidence.files_since else ""
        lines.append(f"  changed  {since}as git tells:")
        hunks = evidence.hunks or ("",) * len(evidence.files)
        for change, inside in zip(evidence.files, hunks, strict=True):
            lines.append(
                f"           {change.what:9} {visible(change.path)} {change.counted}".rstrip()
            )
            lines += [f"             {line}" for line in visible_lines(inside).splitlines()]
        if evidence.files_left_out:
            lines.append(f"           and {evidence.files_left_out} more")
    elif evidence.files_unknown:
        lines.append(f"  changed  {visible(evidence.files_unknown)}")
    return lines


def files_json(evidence: Evidence) -> list[dict[str, Any]]:
    """`hunks` only where they were asked for."""
    files = [change.to_json() for change in evidence.files]
    more = [{"hunks": text} for text in evidence.hunks] or [{}] * len(files)
    return [one | inside for one, inside in zip(files, more, strict=True)]
