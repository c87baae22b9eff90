"""The path that a run took through its plans: how often each step was visited and each route taken.

A trail is data about nodes of a program; a drawing of the program can mark it.
"""

from __future__ import annotations

from typing import Literal

from orchestrate.plan.nodes import NodeId, PlanId, Target
from orchestrate.record import field, mutable_record

# Where a run stands, or what has stopped it.
Mark = Literal["at work", "waiting", "failed"]


@mutable_record
class Trail:
    """`visits` by plan and node; `moves` by plan, node and where the step led."""

    visits: dict[tuple[PlanId, NodeId], int] = field(default_factory=dict)
    moves: dict[tuple[PlanId, NodeId, Target], dict[str, int]] = field(default_factory=dict)
    marks: dict[tuple[PlanId, NodeId], Mark] = field(default_factory=dict)
    # How often each plan was begun.
    starts: dict[PlanId, int] = field(default_factory=dict)
    # Why a run has failed that went on to its end all the same; '' for all others.
    failed_at_end: str = ""

    def copied(self) -> Trail:
        """The same, to go on from here more than once."""
        return Trail(
            dict(self.visits),
            {key: dict(counts) for key, counts in self.moves.items()},
            dict(self.marks),
            dict(self.starts),
            self.failed_at_end,
        )

    def visit(self, plan: PlanId, node: NodeId, times: int = 1) -> None:
        self.visits[plan, node] = self.visits.get((plan, node), 0) + times

    def move(self, plan: PlanId, node: NodeId, label: str, target: Target, times: int = 1) -> None:
        counts = self.moves.setdefault((plan, node, target), {})
        counts[label] = counts.get(label, 0) + times

    def begin(self, plan: PlanId) -> None:
        self.starts[plan] = self.starts.get(plan, 0) + 1
