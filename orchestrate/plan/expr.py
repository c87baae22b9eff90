"""Expressions: values that are worked out when a step runs. Frozen data, no behaviour.

An expression was parsed once, when the file was compiled. What its references resolve to is
only ever inserted, never scanned again, so a value that contains `${` or `{{` stays a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from orchestrate.record import field_names, is_record, record

Scalar = str | int | float | bool | None

# A value reaches a shell script in an environment variable of this name, with a number behind it.
CARRIER = "ORCHESTRATE_VALUE_"


@record
class Const:
    """A scalar written in the file."""

    value: Scalar


@record
class Ref:
    """A reference to a value in scope. As a whole expression it keeps the value's type.

    `path` is canonical: ("steps", "List", "lines"), ("context", "file"), ("run", "id"),
    ("loop", "index"), ("item",) or ("file",) for a loop that says `as: file`, ("param", "model"),
    ("prompt",) in workflows;
    ("var", "analysis", "severity"), ("recipe", "name"), ("session", "id"), ("step", "index"),
    ("approval", "message") in recipes. `text` is what the author wrote. An `optional` reference
    to something undefined is empty instead of an error.
    """

    path: tuple[str, ...]
    text: str
    optional: bool = False


@record
class Text:
    """Literal pieces and references, rendered to one string. No parts: the empty string."""

    parts: tuple[str | Ref, ...]


def literal(text: Text | None) -> str:
    """What a text is without any reference; '' if it has one, or is not there."""
    parts = text.parts if text is not None else ()
    plain = [part for part in parts if isinstance(part, str)]
    return "".join(plain) if len(plain) == len(parts) else ""


def constant_of(expression: Expr) -> Any:
    """The value of an expression without references."""
    match expression:
        case Const(value):
            return value
        case ListExpr(items):
            return [constant_of(item) for item in items]
        case MapExpr(entries):
            return {key: constant_of(item) for key, item in entries}
        case Text() | Ref():
            return show(expression)


@record
class ListExpr:
    items: tuple[Expr, ...]


@record
class MapExpr:
    items: tuple[tuple[str, Expr], ...] = ()


Expr = Const | Ref | Text | ListExpr | MapExpr

NOTHING = MapExpr()


Comparator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


@record
class Compare:
    """Both sides compare as text; as numbers where one is a number written without quotes, and for
    an order where both look like numbers. `in` looks into a list or a text."""

    left: Expr
    operator: Comparator
    right: Expr


@record
class Truth:
    """A value by itself: false are `false`, `0`, `null`, an empty text and an empty list."""

    value: Expr


@record
class Not:
    inner: Cond


@record
class Exists:
    """A pattern matches at least one path in the workspace (or, negated, none)."""

    pattern: Text
    negated: bool = False


@record
class Chain:
    """Conditions joined by `and`/`or`, evaluated strictly from left to right (B)."""

    first: Cond
    rest: tuple[tuple[Literal["and", "or"], Cond], ...]


Cond = Compare | Truth | Not | Exists | Chain


def references(expression: Expr | Cond | None) -> Iterator[Ref]:
    """Every reference inside an expression or condition."""
    match expression:
        case None | Const():
            return
        case Ref():
            yield expression
        case Text(parts):
            yield from (part for part in parts if isinstance(part, Ref))
        case ListExpr(items):
            for item in items:
                yield from references(item)
        case MapExpr(entries):
            for _, item in entries:
                yield from references(item)
        case Compare(left, _, right):
            yield from references(left)
            yield from references(right)
        case Exists(pattern):
            yield from references(pattern)
        case Truth(value):
            yield from references(value)
        case Not(inner):
            yield from references(inner)
        case Chain(first, rest):
            yield from references(first)
            for _, comparison in rest:
                yield from references(comparison)


def show(expression: Expr | Cond) -> str:
    """The expression as an author would write it, for plans and messages."""
    match expression:
        case Const(value):
            return _show_scalar(value)
        case Ref():
            return expression.text
        case Text(parts):
            return "".join(part if isinstance(part, str) else part.text for part in parts)
        case ListExpr(items):
            return "[" + ", ".join(show(item) for item in items) + "]"
        case MapExpr(entries):
            return "{" + ", ".join(f"{key}: {show(value)}" for key, value in entries) + "}"
        case Compare(left, operator, right):
            return f"{_quoted(left)} {operator} {_quoted(right)}"
        case Exists(pattern, negated):
            return f"{'no match for' if negated else 'a match for'} {show(pattern)}"
        case Truth(value):
            return show(value)
        case Not(inner):
            return f"not {_grouped(inner)}"
        case Chain(first, rest):
            words = "".join(f" {word} {_grouped(other)}" for word, other in rest)
            return _grouped(first) + words


def _grouped(condition: Cond) -> str:
    return f"({show(condition)})" if isinstance(condition, Chain) else show(condition)


def _show_scalar(value: Scalar) -> str:
    if isinstance(value, str):
        return value
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _quoted(expression: Expr) -> str:
    match expression:
        case Const(str()) | Text():
            return f"'{show(expression)}'"
        case ListExpr(items):
            return "[" + ", ".join(map(_quoted, items)) + "]"
        case _:
            return show(expression)


def references_in(value: object) -> list[Ref]:
    """Every reference anywhere in a part of a plan."""
    found: list[Ref] = []
    _gather(value, found)
    return found


def _gather(value: object, found: list[Ref]) -> None:
    if isinstance(value, Ref):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            if type(item) not in SCALARS:
                _gather(item, found)
    elif is_record(value):
        for name in field_names(value):
            inner = getattr(value, name)
            if inner and type(inner) not in SCALARS:
                _gather(inner, found)


# Most of what a part of a plan is made of.
SCALARS = frozenset({str, int, bool, float, type(None)})
