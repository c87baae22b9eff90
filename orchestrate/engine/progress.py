"""A circle of agents that comes to nothing ends: `limits: {no_progress: 2}`.

Before a step is asked again, its last rounds are looked at, each from one visit of the step to the
next: if none of so many has changed the workspace, or all have said the same, another one would not
help. It counts only what was recorded with checkpoints of the workspace.
"""

from __future__ import annotations

from typing import Any

from orchestrate.exits import Ending, end
from orchestrate.plan.nodes import Ask, Node
from orchestrate.plan.visible import plural
from orchestrate.state.model import Frame, Index
from orchestrate.state.progress import rounds_around

Turns = list[list[Any]]


def progress_lacking(index: Index, frame: Frame, node: Node) -> Ending | None:
    """How the run ends if the step at the cursor was reached by rounds without any progress."""
    most = index.plan(frame.plan).limits.no_progress
    here = frame.here
    if most is None or here is None or here.since or node.part_of:
        return None
    if not isinstance(node.op, Ask):
        return None
    for around in rounds_around(index, frame):
        rounds = _rounds(around.turns, node.id)
        if _are_idle(rounds, most):
            why = f"{plural(most, 'round')} in a row left the workspace unchanged"
            return _ended(node, why, rounds[-1][-1])
        if _are_alike(rounds, max(most, 2)):
            why = f"{max(most, 2)} rounds in a row got the same answers"
            return _ended(node, why, rounds[-1][-1])
    return None


def _ended(node: Node, why: str, last: list[Any]) -> Ending:
    """Who has seen to it that another turn helps lets the last one be asked again."""
    reason = f"no-progress: {why}, at step '{node.name}'"
    return end("no-progress", reason, {"last": last[4]} if len(last) > 4 else {})


def _rounds(turns: Turns, node: str) -> list[Turns]:
    """The turns from each visit of a step to its next, the oldest first."""
    rounds: list[Turns] = []
    for turn in turns:
        if turn[0] == node:
            rounds.append([])
        if rounds:
            rounds[-1].append(turn)
    return rounds


def _are_idle(rounds: list[Turns], most: int) -> bool:
    """Did nothing change, neither with an agent's turn nor with a command between two of them?"""
    turns = [turn for one in rounds[-most:] for turn in one]
    return len(rounds) >= most and {t[1] for t in turns} == {0} and len({t[2] for t in turns}) == 1


def _are_alike(rounds: list[Turns], most: int) -> bool:
    said = {tuple((turn[0], turn[3]) for turn in one) for one in rounds[-most:]}
    return len(rounds) >= most and len(said) == 1
