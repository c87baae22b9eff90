"""Expressions become values: one pass, and what was inserted is never looked at again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from orchestrate.engine.faults import StepFault
from orchestrate.engine.patterns import escape_pattern
from orchestrate.engine.texts import sendable
from orchestrate.plan.expr import (
    Chain,
    Compare,
    Cond,
    Const,
    Exists,
    Expr,
    ListExpr,
    MapExpr,
    Ref,
    Text,
)
from orchestrate.record import field, record

# No program takes more; values that are filled into each other can double at every step.
LONGEST_TEXT = 64 << 20
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class Undefined(Exception):
    """A scope has nothing at a path; `reason` says why, where that is known."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Scope(Protocol):
    """The values that a step can see."""

    def look_up(self, path: tuple[str, ...]) -> Any:
        """The value at a canonical path (see `Ref`), or raise `Undefined`."""


class UndefinedFault(StepFault):
    """References without a value: all those of an expression, each once, as they were written."""

    def __init__(self, missing: dict[Ref, str]) -> None:
        self.undefined = tuple(dict.fromkeys(ref.text for ref in missing))
        reasons = {ref.text: reason for ref, reason in missing.items() if reason}
        shown = [
            f"{text} ({reasons[text]})" if text in reasons else text for text in self.undefined
        ]
        noun = "variable" if len(shown) == 1 else "variables"
        super().__init__(f"undefined {noun}: {', '.join(shown)}", _undefined_context(missing))


def _undefined_context(missing: Iterable[Ref]) -> dict[str, Any]:
    """C names three kinds: parameters of a provider, results of steps, and all the others."""
    refs = list(missing)
    keys = {ref.path[1]: None for ref in refs if ref.path[0] == "param" and len(ref.path) > 1}
    variables = {ref.text: None for ref in refs if ref.path[0] != "param"}
    results = [".".join(ref.path) for ref in refs if ref.path[0] == "steps"]
    context: dict[str, Any] = {}
    if variables:
        context["undefined_vars"] = list(variables)
    if keys:
        context["missing_placeholders"] = list(keys)
    if results:
        context["invalid_reference"] = results[0]
    return context


def evaluate(expression: Expr, scope: Scope) -> Any:
    """The value of an expression; a lone reference keeps its value's type."""
    reader = _Reader(scope)
    value = reader.value(expression)
    reader.finish()
    return value


def evaluate_items(expression: Expr, scope: Scope) -> list[Any]:
    """What a loop runs over; anything but a list is a fault."""
    items = evaluate(expression, scope)
    if isinstance(items, list):
        return items
    if not isinstance(expression, Ref):
        raise StepFault(f"there is nothing to loop over: it is {kind_of(items)}, not a list")
    raise StepFault(
        f"{expression.text} is {kind_of(items)}, not a list to loop over",
        {"invalid_reference": ".".join(expression.path)},
    )


def render(text: Text, scope: Scope) -> str:
    return render_all((text,), scope)[0]


def render_shown(text: Text, scope: Scope, show: Callable[[Ref, Any], str]) -> str:
    """A text for people, in which `show` decides how each value looks."""
    reader = _Reader(scope)
    rendered = "".join(
        part if isinstance(part, str) else show(part, reader.reference(part)) for part in text.parts
    )
    reader.finish()
    return rendered


def render_all(texts: Iterable[Text], scope: Scope) -> list[str]:
    """Several texts of one step; what is undefined in any of them is one fault."""
    reader = _Reader(scope)
    rendered = [reader.text(text) for text in texts]
    reader.finish()
    return rendered


def render_patterns(texts: Iterable[Text], scope: Scope) -> list[str]:
    """File patterns. Only what the author wrote has wildcards: `*` in a value is a character."""
    reader = _Reader(scope)
    rendered = [reader.text(text, escape_pattern) for text in texts]
    reader.finish()
    return rendered


def render_pattern(text: Text, scope: Scope) -> str:
    return render_patterns((text,), scope)[0]


def holds(condition: Cond, scope: Scope, exists: Callable[[str], bool]) -> bool:
    """Is the condition true? `exists` says whether a rendered pattern matches anything.

    Every comparison is evaluated, so that an undefined variable is found on each run and not only
    when the comparisons before it happen to lead there.
    """
    reader = _Reader(scope)
    match condition:
        case Compare():
            answer = reader.compare(condition)
            reader.finish()
            return answer
        case Exists(pattern, negated):
            rendered = reader.text(pattern, escape_pattern)
            reader.finish()
            return exists(rendered) is not negated
        case Chain(first, rest):
            answer = reader.compare(first)
            for word, comparison in rest:
                other = reader.compare(comparison)
                answer = (answer and other) if word == "and" else (answer or other)
            reader.finish()
            return answer


def render_value(value: Any) -> str:
    """A value as text: strings as they are, all else as compact JSON."""
    if isinstance(value, str):
        return sendable(value)
    return sendable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def descend(value: Any, path: Iterable[str]) -> Any:
    """Follow keys and list positions into a value, or raise `Undefined`; for scopes."""
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _INDEX.match(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            raise Undefined
    return value


def kind_of(value: Any) -> str:
    """What a value is, for messages."""
    if value is None or isinstance(value, bool):
        return render_value(value)
    kinds: dict[type, str] = {str: "text", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


@record
class _Reader:
    """Reads an expression to its end and remembers what was undefined, and why."""

    scope: Scope
    missing: dict[Ref, str] = field(default_factory=dict)

    def finish(self) -> None:
        if self.missing:
            raise UndefinedFault(self.missing)

    def value(self, expression: Expr) -> Any:
        match expression:
            case Const(value):
                return value
            case Ref():
                return self.reference(expression)
            case Text():
                return self.text(expression)
            case ListExpr(items):
                return [self.value(item) for item in items]
            case MapExpr(entries):
                return {key: self.value(item) for key, item in entries}

    def reference(self, ref: Ref) -> Any:
        try:
            return self.scope.look_up(ref.path)
        except Undefined as undefined:
            if not ref.optional:
                self.missing.setdefault(ref, undefined.reason)
            return ""

    def text(self, text: Text, treat: Callable[[str], str] = str) -> str:
        rendered: list[str] = []
        length = 0
        for part in text.parts:
            piece = part if isinstance(part, str) else treat(render_value(self.reference(part)))
            length += len(piece)
            if length > LONGEST_TEXT:
                raise StepFault(
                    f"a text becomes longer than {LONGEST_TEXT >> 20} MiB when it is filled in"
                )
            rendered.append(piece)
        return "".join(rendered)

    def compare(self, comparison: Compare) -> bool:
        left = render_value(self.value(comparison.left))
        right = render_value(self.value(comparison.right))
        return (left == right) is (comparison.operator == "==")
