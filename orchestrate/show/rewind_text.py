"""What a rewind would do, before it is agreed to."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import plural, visible

_MOST_NAMES = 40


def rewind_text(document: dict[str, Any], *, is_undo: bool) -> str:
    """`document` is what `rewind --json` answers."""
    void = document["results_void"]
    # Taking a rewind back voids nothing: what it had voided counts again.
    counts = is_undo and not void
    means = "all results count again" if counts else f"{plural(void, 'result')} void"
    lines = [f"to {visible(document['to'])}: {means}"]
    kept = [f"{one['path']} ({one['reason']})" for one in document["keep"] + document["partial"]]
    for verb, names in (
        ("write", document["write"]),
        ("delete", document["delete"]),
        ("keep", kept),
    ):
        lines += [f"  {verb:6} {visible(name)}" for name in names[:_MOST_NAMES]]
        if len(names) > _MOST_NAMES:
            lines.append(f"  {verb:6} … and {len(names) - _MOST_NAMES} more")
    if not (document["write"] or document["delete"]):
        lines.append("  no file changes")
    lines += [f"  {one}" for one in document["notes"]]
    return "\n".join(lines) + "\n"
