"""Why a step ran, ran again, was reused or waits, in words."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import visible

_LONGEST = 400
# Two values that are longer stand below each other.
_LONGEST_LINE = 60


def why_text(one: dict[str, Any]) -> str:
    visit = f"@{one['visit']}" if one.get("visit", 1) > 1 else ""
    line = f", line {one['line']}" if one.get("line") else ""
    said = one.get("waits") or f"{one['status']}: {one.get('because', '')}"
    text = f"{visible(one['step'])}{visit}{line}: {visible(said)}\n"
    return text + "".join(map(_change_text, one.get("changed", ())))


def _change_text(change: dict[str, Any]) -> str:
    """Both sides of a part: as lines, as texts, or by their digests where no more is kept."""
    if "diff" in change:
        return "".join(f"    {visible(row)}\n" for row in change["diff"])
    name = visible(change.get("name", change["part"]))
    before, after = (change.get(side) or "nothing" for side in ("before", "after"))
    if "before_text" in change:
        before, after = change["before_text"], change["after_text"]
    if "\n" not in before + after and len(before) + len(after) < _LONGEST_LINE:
        return f"    {name}: {visible(before)} → {visible(after)}\n"
    sides = [("-", row) for row in before[:_LONGEST].split("\n")]
    sides += [("+", row) for row in after[:_LONGEST].split("\n")]
    return f"    {name}:\n" + "".join(f"    {sign} {visible(row)}\n" for sign, row in sides)
