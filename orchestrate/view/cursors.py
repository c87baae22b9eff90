"""Where a run stands: the steps at the cursors of its frames, read from a state document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.record import record
from orchestrate.state.address import Address, address_of, name_in_block
from orchestrate.state.model import Here
from orchestrate.state.result import StepResult


@record
class Cursor:
    """A step that is being worked on, waits, or has stopped the run.

    `path` is how people name it, `Loop[3]/Step`; `phase` is one of `state.model.Phase`; `since` is
    when its newest attempt began, else its visit; `result` is what is recorded of it so far.
    """

    frame: str
    name: str
    visit: int
    phase: str
    attempt: int
    since: float
    rest_until: float
    result: StepResult

    @property
    def path(self) -> str:
        return self.address.step.shown

    @property
    def address(self) -> Address:
        return address_of(self.frame, self.name, self.visit, self.attempt)


def cursors_in(document: dict[str, Any]) -> list[Cursor]:
    """The innermost steps at the cursors, in the order of the frames; none in a run that ended."""
    return list(_cursors(document["engine"]["root"], document["steps"]))


def _cursors(frame: dict[str, Any], results: dict[str, Any]) -> Iterator[Cursor]:
    if "here" not in frame:
        return
    here = Here(*frame["here"])
    node = here.node
    name = name_in_block(node, frame["block"])
    result = results.get(name)
    if here.phase == "open":
        if "call" in frame:
            inner = result.get("steps", {}) if isinstance(result, dict) else {}
            yield from _cursors(frame["call"], inner)
            return
        loop = frame.get("loops", {}).get(node, {"open": {}, "name": ""})
        items = results.get(loop["name"], [])
        for position, inner_frame in loop["open"].items():
            yield from _cursors(inner_frame, items[int(position)])
        return
    recorded = StepResult.from_json(result) if isinstance(result, dict) else StepResult()
    yield Cursor(
        frame["key"], name, here.visit, here.phase, here.attempt,
        here.attempt_since or here.since, here.rest_until, recorded,
    )  # fmt: skip
