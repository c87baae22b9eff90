"""Texts, expressions and conditions of a plan as text.

A reference is shown by its canonical path in «guillemets», which tells it from text that merely
looks like one.
"""

from __future__ import annotations

import json

from orchestrate.plan.expr import (
    Chain,
    Compare,
    Cond,
    Const,
    Exists,
    Expr,
    ListExpr,
    MapExpr,
    Not,
    Ref,
    Text,
    Truth,
)
from orchestrate.plan.visible import visible, visible_character


def show_seconds(seconds: float) -> str:
    return f"{seconds:.15g} s"


def show_string(text: str) -> str:
    """In double quotes, with escapes for whatever a terminal must not see."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else "".join(map(visible_character, quoted))


def show_scalar(value: object) -> str:
    return show_string(value) if isinstance(value, str) else json.dumps(value)


def show_text(text: Text) -> str:
    return show_string(show_parts(text))


def show_parts(text: Text) -> str:
    """The text with each reference as its canonical path."""
    return "".join(part if isinstance(part, str) else show_reference(part) for part in text.parts)


def show_reference(reference: Ref) -> str:
    return f"«{'.'.join(reference.path)}{'?' if reference.optional else ''}»"


def show_expression(expression: Expr) -> str:
    match expression:
        case Const(value):
            return show_scalar(value)
        case Ref():
            return visible(show_reference(expression))
        case Text():
            return show_text(expression)
        case ListExpr(items):
            return "[" + ", ".join(map(show_expression, items)) + "]"
        case MapExpr(entries):
            pairs = (f"{show_string(key)}: {show_expression(item)}" for key, item in entries)
            return "{" + ", ".join(pairs) + "}"


def show_condition(condition: Cond) -> str:
    match condition:
        case Compare(left, operator, right):
            return f"{show_expression(left)} {operator} {show_expression(right)}"
        case Exists(pattern, negated):
            return f"{'nothing matches' if negated else 'something matches'} {show_text(pattern)}"
        case Truth(value):
            return show_expression(value)
        case Not(inner):
            return f"not {_grouped(inner)}"
        case Chain(first, rest):
            words = [_grouped(first)]
            words += (f"{word} {_grouped(other)}" for word, other in rest)
            return " ".join(words)


def _grouped(condition: Cond) -> str:
    shown = show_condition(condition)
    return f"({shown})" if isinstance(condition, Chain) else shown
