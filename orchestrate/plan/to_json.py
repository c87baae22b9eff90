"""A program as JSON: every field of every value, in the order declared, with nothing lost.

A value that could be one of several (targets, ops, agents, expressions, conditions) carries its
`kind`. An abort has a kind of its own, which is therefore called `failure`.
"""

from __future__ import annotations

from typing import Any, get_args

from orchestrate.plan.data import FileText
from orchestrate.plan.expr import Cond, Expr
from orchestrate.plan.nodes import Abort, Agent, Op, Program, Target
from orchestrate.record import field_names, is_record

_TAGGED = frozenset(
    member for union in (Cond, Expr, Agent, Op, Target) for member in get_args(union)
) | {FileText}


def program_json(program: Program) -> dict[str, Any]:
    """The whole program as plain data that `json.dumps` takes."""
    document: dict[str, Any] = value_json(program)
    return document


def value_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [value_json(item) for item in value]
    if not is_record(value):
        return value
    shown: dict[str, Any] = {}
    if type(value) in _TAGGED:
        shown["kind"] = kind_of(value)
    for name in field_names(value):
        shown[_name_of(value, name)] = value_json(getattr(value, name))
    return shown


def kind_of(value: object) -> str:
    """`CommandTemplate` → `command-template`."""
    name = type(value).__name__
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


def _name_of(value: object, field: str) -> str:
    return "failure" if isinstance(value, Abort) and field == "kind" else field
