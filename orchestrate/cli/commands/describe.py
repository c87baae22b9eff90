"""`orchestrate describe`: what a recipe does, what it takes and what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from orchestrate.app.definition import compiled
from orchestrate.app.scopes import starting_values
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.plan.expr import show
from orchestrate.plan.nodes import Plan, main_plan
from orchestrate.plan.settings import Input
from orchestrate.plan.to_json import value_json
from orchestrate.plan.visible import visible
from orchestrate.show.output import answer, answer_json
from orchestrate.show.plan_head import declared_outputs
from orchestrate.show.plan_text import show_input


@click.command(short_help="Say what a recipe does, what it takes and gives.")
@click.argument("file", metavar="FILE|ID")
@working_dir_option
@json_option
def describe(file: str, working_dir: str | None, as_json: bool) -> int:
    """Say what a recipe does, which inputs it takes, what it gives and how it is run.

    Starts nothing and writes nothing. `orchestrate plan FILE` shows every step.
    """
    plan = main_plan(compiled(file, workspace_of(working_dir))[1])
    if as_json:
        defaults = starting_values(plan)
        answer_json(
            {
                "dialect": plan.dialect,
                "name": plan.name,
                "title": plan.title,
                "description": plan.description,
                "inputs": [_input_json(one, defaults) for one in plan.inputs],
                "outputs": {name: show(value) for name, value in plan.outputs.items},
            }
        )
    else:
        answer("".join(f"{line}\n" for line in _lines(file, plan)))
    return 0


def _input_json(one: Input, defaults: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = value_json(one)
    del shown["span"]
    return shown | {
        "default": defaults.get(one.name),
        "required": one.default is None,
        "variable": one.variable if one.secret else None,
    }


def _lines(file: str, plan: Plan) -> Iterator[str]:
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
