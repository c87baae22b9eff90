"""A recipe while it is lowered, and its steps as they were written."""

from __future__ import annotations

from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.names import ExpressionPlace, Names
from orchestrate.plan.nodes import Block, NodeId
from orchestrate.record import field, mutable_record, record
from orchestrate.source.advice import intended_field
from orchestrate.source.located import LocatedMap

# More misspelt fields in one step are not written by hand.
_MOST_LOST = 20


@mutable_record
class Recipe:
    """A recipe while its steps are lowered."""

    work: Lowering
    names: Names
    bodies: list[Block] = field(default_factory=list)

    def lacks(self, container: LocatedMap, key: str) -> bool:
        """Is a field missing, and not because the schema check took it out?"""
        return key not in container and not self.has_lost(container, key)

    def has_lost(self, container: LocatedMap, key: str) -> bool:
        """Did the schema check take out a field, or one that was meant to be it?"""
        if key in container.lost:
            return True
        return any(intended_field(lost, (key,), ()) == key for lost in container.lost[:_MOST_LOST])


@record
class WrittenStep:
    """One step as written, with what its surroundings say about it."""

    step: LocatedMap
    id: NodeId
    stage: str | None
    after: tuple[NodeId, ...]
    place: ExpressionPlace
    inner: tuple[WrittenStep, ...] = ()
