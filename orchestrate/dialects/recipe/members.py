"""What the result of a sub-recipe can hold: its final context, and nothing else."""

from __future__ import annotations

from typing import Any

from orchestrate.diagnostics import Span, closest
from orchestrate.dialects.calls import RESULT
from orchestrate.dialects.lowering import Lowering
from orchestrate.lang.curly import clip
from orchestrate.plan.expr import Ref
from orchestrate.plan.nodes import PlanId
from orchestrate.record import mutable_record, record
from orchestrate.source.located import LocatedMap
from orchestrate.source.schema import check_shipped


@mutable_record
class FinalContext:
    """The final context of a recipe: the variables that it declares and that its steps set."""

    name: str
    data: LocatedMap
    members: tuple[str, ...]
    _sound: bool | None = None

    def is_sound(self) -> bool:
        """Does the recipe pass the schema? One with mistakes may set more than can be seen."""
        if self._sound is None:
            self._sound = not check_shipped("recipe", self.data)
        return self._sound


@record
class KeptCall:
    """A call whose result is kept: what the recipe has in the end includes what it was given."""

    final: FinalContext
    arguments: tuple[str, ...]

    def may_have(self, member: str) -> bool:
        known = member in self.final.members or member in self.arguments
        return known or not self.final.is_sound()


def final_context(work: Lowering, plan: PlanId) -> FinalContext:
    """What a recipe has when it ends, whatever it is given."""
    data = work.library.data_of(plan)
    if work.library.dialect_of(plan) != "recipe":
        name = str(data.get("id") or data.get("name") or plan)
        return FinalContext(name, data, RESULT, _sound=True)
    context = data.get("context")
    members = dict.fromkeys(context if isinstance(context, dict) else ())
    staged = [stage.get("steps") for stage in _maps(data.get("stages"))]
    for step in (step for steps in (data.get("steps"), *staged) for step in _steps(steps)):
        members |= dict.fromkeys(step.get("update_context") or ())
        for key in ("output", "collect", "output_exit_code"):
            if isinstance(step.get(key), str):
                members[step[key]] = None
    own = ("outputs",) if "outputs" in data else ()
    return FinalContext(str(data.get("name", plan)), data, (*members, *own))


def _steps(value: Any) -> list[LocatedMap]:
    return [one for step in _maps(value) for one in (step, *_steps(step.get("while_steps")))]


def _maps(value: Any) -> list[LocatedMap]:
    items = value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, LocatedMap)]


def report_member(work: Lowering, called: list[KeptCall], ref: Ref, span: Span) -> None:
    """W103; an optional use may be empty, unless it is a slip of something that exists."""
    members = list(dict.fromkeys(name for one in called for name in _members(one)))
    near = closest(ref.path[2], members)
    if ref.optional and not near:
        return
    recipes = " or ".join(dict.fromkeys(f"'{one.final.name}'" for one in called))
    shown = ", ".join(members[:12]) + (", …" if len(members) > 12 else "")
    hint = f"'{ref.path[1]}' has: {shown}" if members else "give one of its steps an output"
    fixed = ".".join((ref.path[1], near, *ref.path[3:])) + "?" * ref.optional
    work.report_at(
        "W103",
        f"nothing in the recipe {recipes} sets '{clip(ref.path[2])}'",
        span,
        hint="" if near else hint,
        suggestion=f"{{{{{fixed}}}}}" if near else "",
    )


def _members(called: KeptCall) -> tuple[str, ...]:
    return (*called.final.members, *called.arguments)
