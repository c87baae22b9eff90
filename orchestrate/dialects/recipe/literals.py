"""Texts of a recipe in which nothing is filled in, though their author may expect it."""

from __future__ import annotations

import re
from typing import Any

from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.names import Names
from orchestrate.lang.curly import is_variable, parse_template
from orchestrate.plan.expr import Ref
from orchestrate.source.located import LocatedMap, PathKey


def check_context(work: Lowering, names: Names) -> None:
    """Starting values are inserted as they are, and a name must fit into `{{…}}`."""
    context = work.data.get("context") or {}
    check_keys(work, context)
    for key, value in context.items():
        # Braces that name nothing known are wanted: this is where literal ones belong.
        placed = parse_template(value).placed if isinstance(value, str) else ()
        ref = next((item.ref for item in placed if _is_known(names, item.ref)), None)
        if ref is not None:
            work.report("W407", "values of the context are literal: '{{' is not filled in here",
                        context, key,
                        hint=f"write {ref.text} in the texts that use {{{{{key}}}}}")  # fmt: skip


def _is_known(names: Names, ref: Ref) -> bool:
    return ref.path[0] != "var" or ref.path[1] in names.context or ref.path[1] in names.outputs


def check_keys(work: Lowering, context: Any) -> None:
    """A variable with a hyphen or a space can be given, but never used."""
    for key in context:
        if not is_variable(key):
            fixed = re.sub(r"\W", "_", key[:100])
            work.report("W407", f"no {{{{…}}}} can name '{key[:100]}'", context, key, on_key=True,
                        hint="a variable's name has letters, digits and _, no digit first",
                        suggestion=fixed if is_variable(fixed) else "")  # fmt: skip


def check_literals(work: Lowering, step: LocatedMap) -> None:
    """`mode` and `agent_config` reach the agent as they are."""
    waiting: list[tuple[Any, PathKey, str]] = [
        (step, key, key) for key in ("mode", "agent_config") if key in step
    ]
    while waiting:
        container, key, field = waiting.pop(0)
        value = container[key]
        if isinstance(value, dict):
            waiting += [(value, name, field) for name in value]
        elif isinstance(value, list):
            waiting += [(value, index, field) for index in range(len(value))]
        elif isinstance(value, str) and parse_template(value).placed:
            work.report("W407", f"'{field}' is literal: '{{{{' is not filled in here", container,
                        key, hint="write one step for each case, with a condition")  # fmt: skip
