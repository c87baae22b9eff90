"""Tool calls that permissions refused: counted per step and visit, and over the whole run."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.record import replace
from orchestrate.state.result import Denial, Denials


def count_denials(tools: Iterable[str]) -> Denials:
    """One for each tool, from the tool of each call, in the order of the first."""
    return add_denials((), tuple(Denial(tool, 1) for tool in tools))


def add_denials(before: Denials, more: Denials) -> Denials:
    """Both together; what differs in anything but its count stays apart."""
    sums: dict[Denial, int] = {}
    for denial in (*before, *more):
        key = replace(denial, count=0)
        sums[key] = sums.get(key, 0) + denial.count
    return tuple(replace(denial, count=count) for denial, count in sums.items())


def denial_words(denials: Denials) -> str:
    """`3 tool calls were denied: Write (2), Bash`; '' if there were none."""
    total = sum(denial.count for denial in denials)
    if not total:
        return ""
    calls = "1 tool call was" if total == 1 else f"{total} tool calls were"
    return f"{calls} denied: {_tools(denials)}"


def inner_denials(denials: Denials) -> list[str]:
    """`Loop[*]/Step: Write (2)` for each step in a loop or call, as `logs` takes it."""
    inner = [name for name in dict.fromkeys(d.step for d in denials) if "/" in name or "[" in name]
    return [f"{name}: {_tools(tuple(d for d in denials if d.step == name))}" for name in inner]


def _tools(denials: Denials) -> str:
    tools = add_denials((), tuple(replace(denial, step="") for denial in denials))
    return ", ".join(d.tool + (f" ({d.count})" if d.count > 1 else "") for d in tools)
