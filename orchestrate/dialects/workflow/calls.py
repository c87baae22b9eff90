"""`call:` and `outputs:` of a workflow: what goes into another file, and what comes out of this."""

from __future__ import annotations

from typing import Any

from orchestrate.dialects.calls import CallSite, find_plan
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.workflow.scope import BlockScope, Resolver
from orchestrate.plan.expr import NOTHING, Const, Expr, ListExpr, MapExpr, Ref, Text
from orchestrate.plan.flow import AT_END
from orchestrate.plan.nodes import Call
from orchestrate.source.located import LocatedMap, PathKey


def lower_call(resolver: Resolver, step: LocatedMap) -> Call:
    work = resolver.work
    plan = find_plan(work, step, "call")
    values = lower_values(resolver, step, "with") if "with" in step else NOTHING
    arguments = values if isinstance(values, MapExpr) else NOTHING
    if plan is not None:
        holder = step.get("with", step)
        work.calls.append(CallSite(work, step, "call", holder, plan, arguments))
    return Call(plan or Text(()), arguments, keeps_context=False)


def lower_outputs(work: Lowering, top: BlockScope) -> MapExpr:
    if "outputs" not in work.data:
        return NOTHING
    lowered = lower_values(Resolver(work, top, AT_END), work.data, "outputs")
    return lowered if isinstance(lowered, MapExpr) else NOTHING


def lower_values(resolver: Resolver, container: Any, key: PathKey) -> Expr:
    """Free-form data whose texts are filled in, however deep; a lone `${x}` keeps its type."""
    value = container[key]
    if isinstance(value, dict):
        return MapExpr(tuple((name, lower_values(resolver, value, name)) for name in value))
    if isinstance(value, list):
        return ListExpr(tuple(lower_values(resolver, value, at) for at in range(len(value))))
    if not isinstance(value, str):
        return Const(value)
    text = resolver.text(container, key)
    match text.parts:
        case ():
            return Const("")
        case (str(plain),):
            return Const(plain)
        case (Ref() as lone,):
            return lone
        case _:
            return text
