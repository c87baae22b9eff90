"""Expressions become values: one pass, and what was inserted is never looked at again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from operator import ge, gt, le, lt
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
    Not,
    Ref,
    Text,
    Truth,
    show,
)
from orchestrate.record import field, record
from orchestrate.regex import regex

# No program takes more; values that are filled into each other can double at every step.
LONGEST_TEXT = 64 << 20
_INDEX = regex(r"(?:0|[1-9][0-9]{0,8})\Z")


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


def render_shown(text: Text, scope: Scope, show: Callable[[Ref, Any], str | list[str]]) -> str:
    """A text for people; `show` decides how each value looks: words, or lines of its own."""
    reader = _Reader(scope)
    rendered = ""
    is_after_lines = False
    for part in text.parts:
        shown = part if isinstance(part, str) else show(part, reader.reference(part))
        if isinstance(shown, list):
            rendered = _on_new_line(rendered) + "\n".join(shown)
        elif is_after_lines and shown.strip(" "):
            rendered = _on_new_line(rendered) + shown.lstrip(" ").removeprefix("\n")
        else:
            rendered += shown
        is_after_lines = isinstance(shown, list) or (is_after_lines and not shown.strip(" "))
    reader.finish()
    return rendered


def _on_new_line(text: str) -> str:
    begun = text.rstrip(" ")
    return f"{begun}\n" if begun and not begun.endswith("\n") else begun


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
    answer = reader.condition(condition, exists)
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

    def condition(self, condition: Cond, exists: Callable[[str], bool]) -> bool:
        match condition:
            case Compare():
                return self.compare(condition)
            case Truth(value):
                return is_true(self.value(value))
            case Not(inner):
                return not self.condition(inner, exists)
            case Exists(pattern, negated):
                rendered = self.text(pattern, escape_pattern)
                return not self.missing and exists(rendered) is not negated
            case Chain(first, rest):
                answer = self.condition(first, exists)
                for word, other in rest:
                    holds_too = self.condition(other, exists)
                    answer = (answer and holds_too) if word == "and" else (answer or holds_too)
                return answer

    def compare(self, comparison: Compare) -> bool:
        left, right = self.value(comparison.left), self.value(comparison.right)
        match comparison.operator:
            case "==" | "!=" as operator:
                as_numbers = _is_number(comparison.left) or _is_number(comparison.right)
                return _equal(left, right, as_numbers=as_numbers) is (operator == "==")
            case "in" | "not in" as operator:
                if not isinstance(right, list | str):
                    raise StepFault(
                        f"{show(comparison)}: the right side is {kind_of(right)}, "
                        "neither a list nor a text"
                    )
                return _is_in(left, right) is (operator == "in")
            case operator:
                pair = _ordered(left, right)
                if pair is not None:
                    return _ORDERS[operator](*pair)
                # What is undefined is told at the end; `{{name?}}` is neither more nor less.
                if "" in (left, right):
                    return False
                raise StepFault(
                    f"{show(comparison)}: {kind_of(left)} and {kind_of(right)} have no order"
                )


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_NUMBER = regex(r"[-+]?\d{1,300}(?:\.\d{1,300})?(?:[eE][-+]?\d{1,3})?\Z", re.ASCII)


def is_true(value: Any) -> bool:
    """A variable by itself. One from the command line is text, and `false` means the same there."""
    if isinstance(value, str):
        return value.strip() not in ("", "false", "0", "null")
    return value not in (False, None, []) and value != 0


def _is_number(expression: Expr) -> bool:
    return isinstance(expression, Const) and _number(expression.value, of_text=False) is not None


def _number(value: Any, *, of_text: bool = True) -> int | float | None:
    """The number that a value is, or that a text looks like."""
    if isinstance(value, str):
        text = value.strip()
        if not of_text or not _NUMBER.match(text):
            return None
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _equal(left: Any, right: Any, *, as_numbers: bool) -> bool:
    if as_numbers:
        numbers = _number(left), _number(right)
        if None not in numbers:
            return numbers[0] == numbers[1]
    return render_value(left) == render_value(right)


def _is_in(left: Any, right: list[Any] | str) -> bool:
    if isinstance(right, str):
        return render_value(left) in right
    is_number = _number(left, of_text=False) is not None
    return any(
        _equal(left, item, as_numbers=is_number or _number(item, of_text=False) is not None)
        for item in right
    )


def _ordered(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Two values that have an order: numbers, or texts."""
    numbers = _number(left), _number(right)
    if None not in numbers:
        return numbers
    return (left, right) if isinstance(left, str) and isinstance(right, str) else None
