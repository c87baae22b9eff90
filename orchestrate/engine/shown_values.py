"""The values in a question to a person: a line for each part, nothing to decipher."""

from __future__ import annotations

from typing import Any

from orchestrate.engine.evaluate import render_value
from orchestrate.engine.step import Step
from orchestrate.engine.texts import clip, sendable
from orchestrate.plan.expr import Ref
from orchestrate.plan.nodes import Each
from orchestrate.state.model import plan_frame

_MOST_LINES = 40
_LONGEST_TEXT = 400


def show_value(step: Step, ref: Ref, value: Any) -> str | list[str]:
    """A text or a number stands within its sentence; a list or an object is a block of lines."""
    if not isinstance(value, list | dict) or not value:
        return render_value(value)
    lines = _lines_of(_by_item(step, ref, value))
    if len(lines) > _MOST_LINES:
        left_out = len(lines) - _MOST_LINES
        name = ref.path[1] if ref.path[0] == "var" and len(ref.path) > 1 else ref.text
        lines[_MOST_LINES:] = [f"… {left_out} more lines; the whole: `{name}` in the run's state"]
    return lines


def _by_item(step: Step, ref: Ref, value: Any) -> Any:
    """What a loop has collected, under the names of its items where they are names."""
    outer = plan_frame(step.frame)
    for node_id, loop in outer.loops.items():
        op = step.rt.store.index.place(step.frame.plan, node_id).node.op
        if not isinstance(op, Each) or ref.path != ("var", op.collect):
            continue
        names = [item for item in loop.items if isinstance(item, str)]
        if len(set(names)) == len(loop.items) == len(value):
            return dict(zip(names, value, strict=True))
    return value


def _lines_of(value: Any) -> list[str]:
    """As in YAML, but without its quotes: this is read by people only."""
    match value:
        case dict() if value:
            return [line for key, part in value.items() for line in _named(sendable(key), part)]
        case list() if value:
            return [line for part in value for line in _listed(part)]
        case str():
            return sendable(clip(value, _LONGEST_TEXT)).splitlines() or [""]
        case _:
            return [render_value(value)]


def _named(key: str, part: Any) -> list[str]:
    lines = _lines_of(part)
    if len(lines) == 1 and not (isinstance(part, list | dict) and part):
        return [f"{key}: {lines[0]}".rstrip()]
    return [f"{key}:", *(f"  {line}" for line in lines)]


def _listed(part: Any) -> list[str]:
    first, *others = _lines_of(part)
    return [f"- {first}".rstrip(), *(f"  {line}" for line in others)]
