"""`inputs:` of a definition: what a run is told, with defaults that fit."""

from __future__ import annotations

import re
from typing import Any

from orchestrate.dialects.lowering import Lowering, constant
from orchestrate.plan.expr import MapExpr
from orchestrate.plan.inputs import Unfit, checked
from orchestrate.plan.settings import Input, InputType, Secret
from orchestrate.record import replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, PathKey, as_map

# How an input is read in workflows, and in the two other dialects.
_DOLLAR = regex(r"\$\{inputs\.(\w+)\}")
_CURLY = regex(r"\{\{\s*(?:inputs\.)?(\w+)\s*\}\}")


def lower_inputs(work: Lowering, *, is_workflow: bool = False) -> tuple[Input, ...]:
    """The inputs in the order written; what cannot be meant is reported at its place."""
    declared = as_map(work.data.get("inputs"))
    context = work.data.get("context")
    for name in declared:
        if isinstance(context, dict) and name in context:
            work.report("E110", f"'{name}' is an input and a key of the context, too", declared,
                        name, on_key=True, hint="keep one of them")  # fmt: skip
    inputs = tuple(_lower_input(work, declared, name) for name in declared)
    _check_variables(work, declared, inputs)
    if declared:
        _warn_of_foreign(work, frozenset(declared), is_workflow=is_workflow)
    return inputs


def _check_variables(work: Lowering, declared: LocatedMap, inputs: tuple[Input, ...]) -> None:
    """Variables of the environment are written in capitals, whatever the input is."""
    owners: dict[str, str] = {}
    for one in (one for one in inputs if one.secret):
        owner = owners.setdefault(one.variable, one.name)
        if owner != one.name:
            work.report("E110", f"the secrets '{owner}' and '{one.name}' would both come from "
                        f"{one.variable}", declared, one.name, on_key=True,
                        hint="rename one of them")  # fmt: skip


def _warn_of_foreign(work: Lowering, names: frozenset[str], *, is_workflow: bool) -> None:
    """An input that is read as another dialect would: the text stays as it is written."""
    waiting: list[Any] = [work.data]
    seen = {id(work.data.get("inputs"))}
    while waiting:
        container = waiting.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            value = container[key]
            if isinstance(value, dict | list):
                waiting += [] if id(value) in seen else [value]
                seen.add(id(value))
            elif isinstance(value, str):
                for match in (_CURLY if is_workflow else _DOLLAR).finditer(value):
                    if match[1] in names:
                        _report_foreign(work, container, key, match, is_workflow=is_workflow)


def _report_foreign(
    work: Lowering, container: Any, key: PathKey, match: re.Match[str], *, is_workflow: bool
) -> None:
    right = f"${{inputs.{match[1]}}}" if is_workflow else f"{{{{{match[1]}}}}}"
    span = work.span_inside(container, key, match.start(), match.end())
    work.report_at("W109", f"{match[0]} stays as it is written", span, suggestion=right)


def _lower_input(work: Lowering, declared: LocatedMap, name: str) -> Input:
    written = declared[name]
    span = work.span(declared, name, on_key=True)
    if not isinstance(written, LocatedMap):
        if written is None:
            return Input(name, span)
        value, kind = _plain(written), _type_of(written)
        return Input(name, span, kind, default=constant(value))
    one = Input(
        name=name,
        span=span,
        type=written.get("type", "string"),
        description=str(written.get("description", "")),
        enum=tuple(written.get("enum") or ()),
        pattern=str(written.get("pattern", "")),
        minimum=written.get("minimum"),
        maximum=written.get("maximum"),
        secret=bool(written.get("secret", False)),
    )
    _check_bounds(work, written, one)
    if "type" not in written and "default" in written and written["default"] is not None:
        one = replace(one, type=_type_of(written["default"]))
    _check_choices(work, written, one)
    return _with_default(work, written, one)


def _check_choices(work: Lowering, written: LocatedMap, one: Input) -> None:
    """Could a run be given each value of `enum`?"""
    if one.type in ("list", "object", "command"):
        return
    for number, item in enumerate(one.enum):
        try:
            checked(replace(one, enum=()), _plain(item))
        except Unfit as unfit:
            work.report("E110", f"'{one.name}' can never have this value: it {unfit}",
                        written["enum"], number, hint="remove it, or correct the type")  # fmt: skip


def _check_bounds(work: Lowering, written: LocatedMap, one: Input) -> None:
    if one.pattern:
        try:
            re.compile(one.pattern)
        except re.error as error:
            work.report("E110", f"the pattern is not a valid regular expression: {error}", written,
                        "pattern", hint="a literal dot is written \\.")  # fmt: skip
        if one.type not in ("string", "path"):
            work.report("E110", f"'pattern' has no meaning for type {one.type}", written,
                        "pattern", on_key=True, hint="remove it")  # fmt: skip
    for key in ("minimum", "maximum"):
        if key in written and one.type in ("boolean", "object"):
            work.report("E110", f"'{key}' has no meaning for type {one.type}", written, key,
                        on_key=True, hint="remove it")  # fmt: skip
    if one.enum and one.type in ("list", "object", "command"):
        work.report("E110", f"'enum' has no meaning for type {one.type}", written, "enum",
                    on_key=True, hint="remove it")  # fmt: skip
    if one.minimum is not None and one.maximum is not None and one.minimum > one.maximum:
        work.report("E110", "'minimum' is larger than 'maximum'", written, "minimum",
                    hint="no value could be given")  # fmt: skip
    if one.secret and one.type != "string":
        work.report("E110", "a secret is a text", written, "type", hint="remove the type")
    if one.secret and "default" in written:
        work.report("E110", "a secret cannot have a default: the file would show it", written,
                    "default", on_key=True,
                    hint=f"set {one.variable} in the environment instead")  # fmt: skip


def _with_default(work: Lowering, written: LocatedMap, one: Input) -> Input:
    if "default" not in written or one.secret:
        return one
    try:
        value = checked(one, _plain(written["default"]))
    except Unfit as unfit:
        work.report("E110", f"the default of '{one.name}' {unfit}", written, "default",
                    hint="give one that a run could be given")  # fmt: skip
        return one
    return replace(one, default=constant(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _type_of(value: Any) -> InputType:
    """The short form has the type of its default."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "list"
        case dict():
            return "object"
        case _:
            return "string"


def with_defaults(inputs: tuple[Input, ...], context: MapExpr) -> MapExpr:
    """The context of a plan, with the defaults of its inputs before it."""
    given = tuple((one.name, one.default) for one in inputs if one.default is not None)
    return MapExpr((*given, *context.items))


def secrets_among(inputs: tuple[Input, ...]) -> tuple[Secret, ...]:
    """Secret inputs are masked as every secret is, by the variable that brings them."""
    return tuple(Secret(one.variable, one.span) for one in inputs if one.secret)
