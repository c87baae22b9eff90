"""What a recipe does, takes and gives, as text and as a document for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.plan.expr import show
from orchestrate.plan.nodes import Plan
from orchestrate.plan.settings import Input
from orchestrate.plan.to_json import value_json
from orchestrate.plan.visible import visible
from orchestrate.show.plan_head import declared_outputs
from orchestrate.show.plan_text import show_input


def described_json(plan: Plan, defaults: dict[str, Any]) -> dict[str, Any]:
    """`defaults` are the values that inputs have where none are given."""
    return {
        "dialect": plan.dialect,
        "name": plan.name,
        "title": plan.title,
        "description": plan.description,
        "inputs": [_input_json(one, defaults) for one in plan.inputs],
        "outputs": {name: show(value) for name, value in plan.outputs.items},
    }


def _input_json(one: Input, defaults: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = value_json(one)
    del shown["span"]
    return shown | {
        "default": defaults.get(one.name),
        "required": one.default is None,
        "variable": one.variable if one.secret else None,
    }


def described_lines(file: str, plan: Plan) -> Iterator[str]:
    yield f"{visible(plan.title or plan.name)} ({plan.dialect})"
    if plan.description:
        yield visible(plan.description)
    yield ""
    if not plan.inputs:
        yield "It takes no inputs."
    else:
        yield "Inputs:"
        yield from (f"  {show_input(one)}" for one in plan.inputs)
    yield from declared_outputs(plan)
    words = [f"-i {one.name}=…" for one in plan.inputs if one.default is None and not one.secret]
    if words and words[0] == f"-i {plan.inputs[0].name}=…":
        words[0] = '"…"'
    yield ""
    yield " ".join(("orchestrate run", visible(file), *words))
