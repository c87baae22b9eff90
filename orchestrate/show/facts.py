"""Facts of a run that several views tell in a line: a gate's decision, what the run has given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrate.plan.visible import clip, visible

_LONGEST = 200
_MOST_OUTPUTS = 10


def decision_words(gate: Mapping[str, Any]) -> str:
    """`denied by alice: too risky`."""
    said = f": {clip(visible(gate['message']), _LONGEST)}" if gate["message"] else ""
    # An edit has made an open gate expire; nobody has decided.
    by = f" by {visible(gate['decided_by'])}" if gate["decided_by"] else ""
    return f"{gate['status']}{by}{said}"


def output_lines(outputs: Mapping[str, Any]) -> list[str]:
    """A line for each of the first ones; `--json` and the report have all of them in full."""
    lines = [
        f"{clip(visible(name), 40)} = {_value(value)}"
        for name, value in list(outputs.items())[:_MOST_OUTPUTS]
    ]
    hidden = len(outputs) - len(lines)
    return [*lines, f"and {hidden} more"] if hidden else lines


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(visible(text.strip()), _LONGEST)
