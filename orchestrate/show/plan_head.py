"""What stands above the steps of a plan in a dry run, the same in every dialect."""

from __future__ import annotations

from collections.abc import Container, Iterator

from orchestrate.plan.durations import as_written
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import Node, Plan, Program
from orchestrate.plan.settings import Input, Limits
from orchestrate.plan.visible import clip, visible
from orchestrate.show.expression_text import show_scalar

_LONGEST = 120
# The limits that a file has in any case, by dialect; a dry run has a line of its own for them.
TOLD_APART: dict[str, tuple[str, ...]] = {
    "machine": ("visits", "steps"),
    "recipe": ("steps",),
    "workflow": (),
}


def head_lines(program: Program, plan: Plan, unset: Container[str] = ()) -> Iterator[str]:
    """`unset`: variables of the environment that secrets lack."""
    if budgets := limit_words(plan.limits, without=TOLD_APART[plan.dialect]):
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


def limit_words(limits: Limits, *, without: Container[str] = ()) -> str:
    """How far a run may go, and what it may use up."""
    words = {
        "visits": limits.max_visits,
        "steps": limits.max_steps,
        "cost": _dollars(limits.max_cost),
        "tokens": limits.max_tokens,
        "time": None if limits.max_time is None else as_written(limits.max_time),
        "calls": limits.max_calls,
        "no progress": limits.no_progress,
        "cost per day": _dollars(limits.day_cost),
        "tokens per day": limits.day_tokens,
        "calls per day": limits.day_calls,
    }
    return ", ".join(
        f"{name}={most}" for name, most in words.items() if most is not None and name not in without
    )


def visit_limit_words(node: Node) -> str:
    """What the agent may use in one visit of a step."""
    words = {"cost": _dollars(node.most_cost), "tokens": node.most_tokens}
    return ", ".join(f"{name}={most}" for name, most in words.items() if most is not None)


def _dollars(most: float | None) -> str | None:
    return None if most is None else f"${most:g}"


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
            kind = [*([] if one.type == "string" else [one.type]), *kind_words(one)]
            about = ": ".join(word for word in (", ".join(kind), visible(one.description)) if word)
            yield f"    {visible(one.name)}: {state}{f'  ({about})' if about else ''}"


def kind_words(one: Input) -> list[str]:
    """Which values of its type an input takes."""
    words = []
    if one.enum:
        words.append(f"one of {', '.join(show_scalar(value) for value in one.enum)}")
    if one.pattern:
        words.append(f"like {visible(one.pattern)}")
    bounds = (("at least", one.minimum), ("at most", one.maximum))
    return words + [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
