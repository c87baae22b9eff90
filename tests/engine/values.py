"""A scope made of plain data."""

from __future__ import annotations

from typing import Any

from orchestrate.engine.evaluate import Undefined, descend
from orchestrate.lang.dollar import parse_dollar
from orchestrate.plan.expr import Ref, Text
from orchestrate.record import record


@record
class Values:
    """Looks paths up in a tree; `reasons` says why something is not there."""

    tree: dict[str, Any]
    reasons: tuple[tuple[str, str], ...] = ()

    def look_up(self, path: tuple[str, ...]) -> Any:
        try:
            return descend(self.tree, path)
        except Undefined:
            raise Undefined(dict(self.reasons).get(".".join(path), "")) from None


def text(written: str) -> Text:
    """What the compiler makes of a text in a workflow."""
    parsed = parse_dollar(written)
    assert not parsed.faults
    return Text(
        tuple(
            part if isinstance(part, str) else Ref(part.segments, part.text)
            for part in parsed.parts
        )
    )
