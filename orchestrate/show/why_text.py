"""Why a step ran, ran again, was reused or waits, in words."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import visible

_LONGEST = 400


def why_text(one: dict[str, Any]) -> str:
    visit = f"@{one['visit']}" if one.get("visit", 1) > 1 else ""
    line = f", line {one['line']}" if one.get("line") else ""
    said = one.get("waits") or f"{one['status']}: {one.get('because', '')}"
    text = f"{visible(one['step'])}{visit}{line}: {visible(said)}\n"
    for change in one.get("changed", ()):
        if "diff" in change:
            text += "".join(f"    {visible(row)}\n" for row in change["diff"])
        elif "before_text" in change:
            text += f"    - {visible(change['before_text'][:_LONGEST])}\n"
            text += f"    + {visible(change['after_text'][:_LONGEST])}\n"
        elif "values" in change:
            text += "".join(
                f"    {visible(n)}: {a} → {b}\n" for n, (a, b) in change["values"].items()
            )
        else:
            text += f"    {change['part']}: {change['before']} → {change['after']}\n"
    return text
