"""Calls of other recipes: which plan a `recipe:` path leads to, and what is handed over."""

from __future__ import annotations

from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.dialects.calls import CallSite, find_plan
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.literals import check_keys
from orchestrate.dialects.recipe.members import KeptCall, final_context
from orchestrate.dialects.recipe.names import (
    ExpressionPlace,
    Names,
    lower_value,
    may_search,
    read_template,
    reject_reserved_keys,
)
from orchestrate.dialects.resolvers import pool_of
from orchestrate.lang.curly import NAMESPACES
from orchestrate.plan.expr import NOTHING, MapExpr, Text
from orchestrate.plan.nodes import Call, PlanId
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap
from orchestrate.source.prune import walk_strings


def lower_call(work: Lowering, names: Names, step: LocatedMap, place: ExpressionPlace) -> Call:
    """The call of a recipe step."""
    arguments = NOTHING
    if "context" in step:
        reject_reserved_keys(work, step["context"])
        check_keys(work, step["context"])
        lowered = lower_value(work, names, place, step, "context")
        arguments = lowered if isinstance(lowered, MapExpr) else NOTHING
    recursion = step.get("recursion") or {}
    plan = _lower_path(work, names, step, place)
    if isinstance(plan, str):
        if "context" in step:
            _check_arguments(work, names, step["context"], plan)
        holder = step.get("context", step)
        work.calls.append(CallSite(work, step, "recipe", holder, plan, arguments))
    if isinstance(plan, str) and "output" in step and step["output"] != step.get("collect"):
        if plan not in names.finals:
            names.finals[plan] = final_context(work, plan)
        is_recipe = work.library.dialect_of(plan) == "recipe"
        given = tuple(step.get("context") or ()) if is_recipe else ()
        call = KeptCall(names.finals[plan], given)
        names.called[str(step.get("id", "?")), step["output"]] = call
    return Call(
        plan=plan if plan is not None else Text(()),
        arguments=arguments,
        max_depth=recursion.get("max_depth"),
        max_steps=recursion.get("max_total_steps"),
        # In a loop it is the items that are given away.
        spread="" if "foreach" in step else pool_of(step),
    )


def _lower_path(
    work: Lowering, names: Names, step: LocatedMap, place: ExpressionPlace
) -> PlanId | Text | None:
    """The called plan; None after a report."""
    path = str(step.get("recipe", ""))
    if not path.strip():
        return None
    template = read_template(work, names, place, step, "recipe")
    if template.placed:
        work.report("W302", "which recipe this calls is known only when the step runs", step,
                    "recipe", hint="it is checked then; a fixed path is checked now")  # fmt: skip
        return Text(template.parts)
    if template.faults:
        return None
    return find_plan(work, step, "recipe")


_NAMED = regex(r"\{\{\s*([A-Za-z_]\w*)|\$\{(?:context|inputs)\.([A-Za-z_]\w*)")


def _check_arguments(work: Lowering, names: Names, context: Any, called: PlanId) -> None:
    """An argument that the called recipe neither declares nor mentions is probably a slip."""
    data = work.library.data_of(called)
    if work.library.dialect_of(called) == "machine":
        return
    own = (data.get("context"), data.get("inputs"))
    known = [name for declared in own if isinstance(declared, dict) for name in declared]
    unknown = [key for key in context if key not in known]
    if not unknown or not may_search(names):
        return
    mentioned = {
        match[1] or match[2] for _, text in walk_strings(data) for match in _NAMED.finditer(text)
    }
    for key in unknown:
        if key not in mentioned and key not in NAMESPACES:
            work.report("W407", f"the recipe '{data.get('name', called)}' has no variable '{key}'",
                        context, key, on_key=True,
                        hint=f"its context has: {', '.join(known[:12])}" if known else "remove it",
                        suggestion=closest(key, known))  # fmt: skip
