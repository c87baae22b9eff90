"""Items that machines of a fleet take, each as a run of its own: what they did becomes events here.

What comes back are the events of the item's own journal, so that the state is what it would be had
the item run here. Who takes it, follows it and merges its changes is behind `Spreader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from orchestrate.engine.ready import Task
from orchestrate.exits import end
from orchestrate.plan.nodes import OK, Call, Each, Node
from orchestrate.plan.visible import visible
from orchestrate.state.address import Address, FrameKey
from orchestrate.state.events import Event, ItemsMerged
from orchestrate.state.items_away import given_away, is_in_stopping_loop, pool_of
from orchestrate.state.model import Frame, RunState, open_loop

if TYPE_CHECKING:
    from orchestrate.engine.runtime import Runtime

# With `drop` its item is over for good; with `rest` a resume goes on with it.
How = Literal["drop", "rest"]


class Spreader(Protocol):
    """Brings items to other machines, and back what they did."""

    def follow(self, key: str, pool: str) -> Sequence[Event] | None:
        """What an item has done since it was asked last, once it rests; it begins where it has not.

        Nothing if the run is to stop; None if it was ended there, and has nothing more to say.
        """

    def end(self, key: str, how: How) -> None:
        """Let an item end that is of no more use, or not now; it is not waited for."""

    def merge(self, keys: Sequence[str], *, marks: bool) -> Sequence[str]:
        """Bring what items have changed into the workspace; or else the files in conflict.

        With `marks` these are brought there, too, with markers where they are in conflict.
        """

    def wait_only(self, *, is_so: bool) -> None:
        """Does nothing else go on here? Then others may work in the meantime."""


def with_items_away(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks here; of what is given away, only a person's part is."""
    followed: set[str] = set()
    for task in tasks:
        item = given_away(task.frame)
        if item is None or task.kind in ("ask", "lost", "drop", "merge"):
            yield task
        elif item.key not in followed:
            followed.add(item.key)
            yield Task("away", item)


def follow_item(rt: Runtime, frame: Frame) -> list[Event]:
    """What an item has done elsewhere, once it rests."""
    assert rt.spreader is not None
    events = rt.spreader.follow(frame.key, pool_of(frame))
    if events is not None:
        return [*events]
    state = rt.store.state
    if rt.stop.is_requested or state.ending is not None or is_in_stopping_loop(frame):
        return []
    return [rt.ended(end("failed", f"{visible(frame.key)} was cancelled on its machine"))]


def is_item_over(state: RunState, key: str) -> bool:
    """Of a run that has nothing but an item to do: is that done?"""
    frame = state.frames.get(key)
    return frame is None or bool(frame.merges)


def end_item(rt: Runtime, frame: Frame, how: How) -> None:
    item = given_away(frame)
    if rt.spreader is not None and item is not None:
        rt.spreader.end(item.key, how)


def merge_items(rt: Runtime, frame: Frame) -> list[Event]:
    """All items of a loop are over, or a call is: what they changed comes together here."""
    here = frame.here
    assert here is not None
    node = rt.store.index.here(frame).node
    marks = _is_resolved(frame, node)
    conflicts: list[str] = []
    if rt.spreader is not None:
        conflicts += rt.spreader.merge(_keys_of(frame), marks=marks)
    address = Address(FrameKey.parse(frame.key), node.name, here.visit)
    if conflicts:
        files = ", ".join(map(visible, conflicts))
        rt.logbook.write(
            "info" if marks else "error", f"{address.text}: conflicting changes of {files}"
        )
    if rt.checkpoints is not None and (marks or not conflicts):
        rt.checkpoints.owe(address)
    marked = bool(conflicts) and marks
    return [ItemsMerged(frame.key, here.node, here.visit, rt.now(), conflicts, marked)]


def _is_resolved(frame: Frame, node: Node) -> bool:
    """Is an agent asked where changes are in conflict? Not for a loop that has failed anyway."""
    if not isinstance(node.op, Each | Call) or not node.op.has_resolver:
        return False
    loop = open_loop(frame)
    return frame.call is not None or (loop is not None and loop.label == OK)


def _keys_of(frame: Frame) -> list[str]:
    """What is merged, in order; an item that failed leaves what it changed on its machine."""
    if frame.call is not None:
        return [frame.call.key]
    loop = open_loop(frame)
    assert loop is not None
    assert frame.here is not None
    key = FrameKey.parse(frame.key)
    return [
        key.item(loop.name, position, frame.here.visit).text
        for position in sorted(loop.done)
        if position not in loop.failed
    ]
