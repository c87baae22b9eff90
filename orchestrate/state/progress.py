"""What the agents of a circle have come to, round after round: noted only where a limit asks."""

from __future__ import annotations

from orchestrate.digest import sha256_of
from orchestrate.plan.nodes import SKIPPED, Each
from orchestrate.state.address import shown_path
from orchestrate.state.durable import dump_json
from orchestrate.state.events import StepFinished
from orchestrate.state.model import Frame, Index, RunState

# No circle that is still looked at has more turns in it.
_MOST_TURNS = 400


def note_turn(index: Index, state: RunState, frame: Frame, event: StepFinished) -> None:
    """An agent has ended its turn: whether the workspace changed with it, how that is now, and what
    was said. Checks and their rounds are not a circle of the author's."""
    node = index.place(frame.plan, event.node).node
    is_limited = index.plan(frame.plan).limits.no_progress is not None
    if not is_limited or node.part_of is not None or event.label == SKIPPED:
        return
    tree = str(state.checkpoint.get("tree", ""))
    if not tree or event.result.reused:
        return
    files = (event.result.changed or {}).get("files")
    # A commit is a change too, also where it leaves the files as they are.
    stands = f"{tree} {state.checkpoint.get('head', '')}"
    path = shown_path(frame.key, event.node) + (f"@{event.visit}" if event.visit > 1 else "")
    turn = [event.node, files, stands, _said(event), path]
    for around in rounds_around(index, frame):
        around.turns = [*around.turns[-_MOST_TURNS:], turn]


def rounds_around(index: Index, frame: Frame) -> list[Frame]:
    """The frame, and those around it in which it is a round of a loop, not one of several items."""
    found = [frame]
    while frame.is_iteration and frame.parent is not None:
        frame = frame.parent
        each = index.here(frame).node.op
        if not isinstance(each, Each) or each.rounds is None:
            break
        found.append(frame)
    return found


def _said(event: StepFinished) -> str:
    """The answer without what does not matter: capitals and blanks."""
    words = " ".join(str(event.result.output or event.value or "").lower().split())
    return sha256_of(dump_json([event.label, words]))[:16]
