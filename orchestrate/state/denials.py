"""Tool calls that permissions refused: counted per step and visit, and over the whole run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Denials = list[dict[str, Any]]


def count_denials(tools: Iterable[str]) -> Denials:
    """`[{"tool": "Write", "count": 2}]` from the tool of each call, in the order of the first."""
    counts: dict[str, int] = {}
    for tool in tools:
        counts[tool] = counts.get(tool, 0) + 1
    return [{"tool": tool, "count": count} for tool, count in counts.items()]


def add_denials(before: Denials, more: Denials) -> Denials:
    """Both together; what differs in anything but its count stays apart."""
    sums: dict[tuple[tuple[str, Any], ...], int] = {}
    for denial in (*before, *more):
        key = tuple((name, value) for name, value in denial.items() if name != "count")
        sums[key] = sums.get(key, 0) + denial["count"]
    return [{**dict(key), "count": count} for key, count in sums.items()]


def denials_of(result: Any) -> Denials:
    """Those of a step's result; a loop's results and a step that has none have none."""
    found: Denials = result.get("denials", []) if isinstance(result, dict) else []
    return found


def denial_words(denials: Denials) -> str:
    """`3 tool calls were denied: Write (2), Bash`; '' if there were none."""
    total = sum(denial["count"] for denial in denials)
    if not total:
        return ""
    tools = add_denials([], [{"tool": d["tool"], "count": d["count"]} for d in denials])
    named = ", ".join(d["tool"] + (f" ({d['count']})" if d["count"] > 1 else "") for d in tools)
    calls = "1 tool call was" if total == 1 else f"{total} tool calls were"
    return f"{calls} denied: {named}"
