"""What stands above the steps of a plan in a dry run, the same in every dialect."""

from __future__ import annotations

from collections.abc import Container, Iterator

from orchestrate.plan.durations import as_written
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import Plan, Program
from orchestrate.plan.settings import Limits
from orchestrate.plan.visible import clip, visible

_LONGEST = 120


def head_lines(program: Program, plan: Plan, unset: Container[str] = ()) -> Iterator[str]:
    """`unset`: variables of the environment that secrets lack."""
    if budgets := limit_words(plan.limits, with_steps=plan.dialect == "workflow"):
        yield f"  Run limits: {budgets}"
    if plan.secrets:
        names = (
            f"{visible(secret.name)}{' (not set)' if secret.name in unset else ''}"
            for secret in plan.secrets
        )
        yield f"  Secrets: {', '.join(names)}"
    yield from _input_lines(plan, unset, is_called=plan.id != program.main)
    yield from (f"  {line}" for line in declared_outputs(plan))


def declared_outputs(plan: Plan) -> Iterator[str]:
    """What the plan gives in the end, under a title; nothing if it declares no outputs."""
    if plan.outputs.items:
        yield "Outputs:"
        for name, value in plan.outputs.items:
            yield f"  {visible(name)}: {clip(visible(show(value)), _LONGEST)}"


def limit_words(limits: Limits, *, with_steps: bool = False) -> str:
    """What a run may use up, and with steps how far it may go; '' without limits."""
    time = None if limits.max_time is None else as_written(limits.max_time)
    cost = None if limits.max_cost is None else f"${limits.max_cost:g}"
    words = {"cost": cost, "tokens": limits.max_tokens, "time": time, "calls": limits.max_calls}
    if with_steps:
        words = {"visits": limits.max_visits, "steps": limits.max_steps, **words}
    return ", ".join(f"{name}={most}" for name, most in words.items() if most is not None)


def _input_lines(plan: Plan, unset: Container[str], *, is_called: bool) -> Iterator[str]:
    if plan.inputs:
        given = dict(plan.context.items)
        yield "  Inputs:"
        for number, one in enumerate(plan.inputs):
            value = given.get(one.name)
            if one.secret:
                state = f"secret, from {one.variable}"
                if one.variable in unset:
                    state = f"missing: set {one.variable} in the environment"
            elif value is None:
                also = "" if number else ", or as the text after the file"
                state = f"missing: give it with -i {visible(one.name)}=…{also}"
                state = "given by what calls this" if is_called else state
            else:
                state = clip(visible(show(value)), _LONGEST)
            about = f"  ({visible(one.description)})" if one.description else ""
            yield f"    {visible(one.name)}: {state}{about}"
