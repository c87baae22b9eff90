"""Gates that wait for a decision, as text and as documents for programs."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.plan.visible import visible, visible_lines
from orchestrate.state.address import gate_words
from orchestrate.state.times import duration, local_time, seconds_of
from orchestrate.view.inbox import Evidence, Waiting
from orchestrate.view.place import Place
from orchestrate.view.source_files import shown_definition


def waiting_json(one: Waiting) -> dict[str, Any]:
    return {
        "run_id": one.run_id,
        "workflow_file": one.definition,
        "at_terminal": one.at_terminal,
        "name": one.name,
        **one.gate.question,
        "files": files_json(one.evidence),
    }


def waiting_text(one: Waiting, place: Place) -> str:
    gate = one.gate
    who = visible(gate_words(gate.stage, gate.node, one.name))
    lines = [f"{one.run_id}  {shown_definition(one.definition)}  {who}"]
    lines += [f"  | {visible(line)}" for line in gate.prompt.splitlines()]
    until = until_words(gate.expires_at, gate.default)
    lines.append(f"  since    {local_time(gate.requested_at)}{until}")
    if one.evidence.files:
        lines += files_lines(one.evidence)
    if one.at_terminal:
        lines.append("  it also asks at a terminal")
    for verb in ("approve", "deny"):
        command = place.command(verb, one.run_id, one.name)
        lines.append(f"  {verb + ':':8} {visible(command)}")
    return "\n".join(lines) + "\n"


def until_words(expires_at: str | None, default: str) -> str:
    """How long a question can still be answered; '' if for ever."""
    if expires_at is None:
        return ""
    left = duration(max(0.0, seconds_of(expires_at) - time.time()) * 1000)
    return f", until {local_time(expires_at)} (in {left}; then: {default})"


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
