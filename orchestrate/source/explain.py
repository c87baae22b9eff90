"""Schema violations become findings: in the author's words, at the exact place, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.diagnostics import Diagnostic, clipped, closest
from orchestrate.record import replace
from orchestrate.regex import regex
from orchestrate.source.advice import (
    FOREIGN_WORDS,
    advice,
    intended_field,
    quoting,
    reshaping,
    tidied,
)
from orchestrate.source.include import Document
from orchestrate.source.invisible import HINT, at_the_edge, name_of
from orchestrate.source.located import LocatedMap, mark_at
from orchestrate.source.schema import Schema, Violation

# Looking for a near miss is slow, and longer mappings are not written by hand.
_MOST_KEYS = 50
_TYPE_NAMES = {
    "string": "text",
    "object": "a mapping",
    "array": "a list",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number",
    "number": "a number",
}
_LONE_VARIABLE = regex(r"\$\{[^{}]+\}\Z")


def explain(document: Document, violation: Violation) -> Diagnostic | None:
    """The finding for one violation; None when another finding tells the same."""
    if _is_outdented(document.data, violation):
        return _outdented(document, violation)
    if violation.keyword == "required" and _is_misspelt(violation):
        return None
    explanation = _EXPLAINERS.get(violation.keyword, _explain_other)
    return _unveiled(explanation(document, violation), violation)


def _unveiled(found: Diagnostic, violation: Violation) -> Diagnostic:
    """Names the invisible character that caused a finding: it cannot be seen."""
    text = violation.path[-1] if violation.keyword == "additionalProperties" else violation.value
    unseen = at_the_edge(text) if isinstance(text, str) else ""
    if not unseen:
        return found
    message = f"{found.message}: it contains {name_of(unseen)}"
    return replace(found, message=message, hint=HINT, suggestion="")


# The fields of a machine's step. Indented too little, each of them becomes a step itself.
_OF_STEP = ("prompt", "outcomes", "onOutcome", "model", "onLost")


def _is_outdented(data: Any, violation: Violation) -> bool:
    """Does this come of a step's field that stands among the steps?"""
    path = violation.path
    if len(path) < 2 or path[0] != "steps" or not isinstance(path[1], str):
        return False
    steps = data["steps"]
    if _is_stray(steps, path[1]):
        return True
    missing = violation.detail if violation.keyword == "required" and len(path) == 2 else ""
    return _is_stray(steps, missing) and _owner(steps, missing) == path[1]


def _is_stray(steps: Any, name: str) -> bool:
    if name not in _OF_STEP or name not in steps or len(steps) > _MOST_KEYS:
        return False
    value = steps[name]
    is_step = isinstance(value, dict) and any(field in value for field in _OF_STEP)
    return not is_step and _owner(steps, name) != ""


def _owner(steps: Any, field: str) -> str:
    """The step above a field that stands among the steps, or ''."""
    names = list(steps)
    above = [name for name in names[: names.index(field)] if name not in _OF_STEP]
    return above[-1] if above else ""


def _outdented(document: Document, violation: Violation) -> Diagnostic | None:
    field = violation.path[1]
    # The value breaks the rules for steps in several ways; one of them always.
    first = violation.keyword == "type" or violation.detail == "prompt"
    if len(violation.path) > 2 or field not in _OF_STEP or not first:
        return None
    owner = _owner(document.data["steps"], str(field))
    return _finding(
        document,
        replace(violation, hint=""),
        "E103",
        f"'{field}' stands among the steps, but belongs to the step '{owner}'",
        on_key=True,
        hint=f"indent it like the other fields of '{owner}', with the lines below it",
    )


def _finding(
    document: Document,
    violation: Violation,
    code: str,
    message: str,
    *,
    on_key: bool = False,
    hint: str = "",
    suggestion: str = "",
) -> Diagnostic:
    mark = mark_at(document.data, violation.path, on_key=on_key)
    return document.sources.diagnostic(
        code,
        message,
        document.sources.span(mark),
        hint=violation.hint or hint,
        suggestion=suggestion,
    )


def _name(violation: Violation) -> str:
    """`field` for a mapping's value, `steps[2]` style for a list's item."""
    last = violation.path[-1] if violation.path else "the document"
    if isinstance(last, int):
        parent = violation.path[-2] if len(violation.path) > 1 else "item"
        return f"item {last + 1} of '{parent}'"
    return f"'{last}'"


def _unknown(document: Document, violation: Violation) -> Diagnostic:
    key = str(violation.path[-1])
    siblings = _value_at(document.data, violation.path[:-1])
    allowed = [name for name in violation.schema.get("properties", {}) if not name.startswith("$")]
    near = intended_field(key, allowed, siblings)
    if key == "command_override":
        return _finding(
            document,
            violation,
            "E417",
            "'command_override' is not supported",
            on_key=True,
            hint="write the whole call as `command: [...]`",
        )
    where = f" in '{violation.path[-2]}'" if _named_parent(violation) else ""
    hint = advice(key, allowed)
    if not hint and not near:
        hint = f"known fields: {', '.join(allowed[:14])}" + (", …" if len(allowed) > 14 else "")
    return _finding(
        document,
        violation,
        "E101",
        f"unknown field '{key}'{where}",
        on_key=True,
        hint=hint,
        suggestion=near,
    )


def _is_field(violation: Violation) -> bool:
    return bool(violation.path) and isinstance(violation.path[-1], str)


def _named_parent(violation: Violation) -> bool:
    return len(violation.path) > 1 and isinstance(violation.path[-2], str)


def _value_at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def _is_misspelt(violation: Violation) -> bool:
    """Is the missing field there under a wrong name, which is reported as unknown?"""
    allowed = violation.schema.get("properties", {})
    return any(
        key not in allowed and intended_field(key, allowed, violation.value) == violation.detail
        for key in list(violation.value)[:_MOST_KEYS]
    )


def _required(document: Document, violation: Violation) -> Diagnostic:
    name = violation.detail
    owner = _describe(violation)
    sub = violation.schema.get("properties", {}).get(name, {})
    examples = sub.get("examples") or []
    hint = sub.get("x-hint", "")
    # A hint that shows the field tells how to write it; others only say what it may contain.
    if f"{name}:" not in hint:
        example = examples[0] if examples else None
        if isinstance(example, str | int) and len(str(example)) < 50:
            hint = f"for example `{name}: {_as_yaml(example)}`"
        else:
            about = sub.get("description", "").partition(". ")[0].rstrip(".")
            hint = hint or f"add `{name}:` ({about[:1].lower()}{about[1:]})"
    value = violation.value
    on_key = bool(violation.path) and isinstance(violation.path[-1], str)
    if isinstance(value, LocatedMap) and value and not on_key and violation.path:
        first = next(iter(value))
        mark = value.key_mark(first)
        return document.sources.diagnostic(
            "E102", f"{owner} has no '{name}'", document.sources.span(mark), hint=hint
        )
    return _finding(
        document, violation, "E102", f"{owner} has no '{name}'", on_key=on_key, hint=hint
    )


def _describe(violation: Violation) -> str:
    if not violation.path:
        return "the document"
    value = violation.value
    if len(violation.path) > 1 and violation.path[-2] == "steps" and _is_field(violation):
        return f"the step {_name(violation)}"
    if isinstance(value, dict):
        for key in ("name", "id"):
            if isinstance(value.get(key), str):
                return (
                    f"the step '{value[key]}'" if "steps" in violation.path else f"'{value[key]}'"
                )
    return _name(violation)


def _as_yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"' if not value or not value.replace("-", "a").isidentifier() else value
    return str(value)


def _type(document: Document, violation: Violation) -> Diagnostic:
    named = violation.schema["type"]
    expected = " or ".join(
        _TYPE_NAMES[name] for name in ([named] if isinstance(named, str) else named)
    )
    found = _show(document, violation)
    message = f"{_name(violation)} must be {expected}, not {found}"
    if violation.value is None:
        return _empty(document, violation, expected)
    authored = document.sources.authored(mark_at(document.data, violation.path))
    quoted = quoting(violation.value, authored, violation.schema)
    if named == "string" and violation.hint and "minLength" in violation.schema:
        quoted = ""  # an expression, such as B's condition: quotes alone would not make it one
    if named == "array" and _LONE_VARIABLE.match(str(violation.value)) and _is_field(violation):
        quoted = f'write it as the only item: {violation.path[-1]}: ["{violation.value}"]'
    better = replace(violation, hint=quoted or violation.hint)
    hint = reshaping(violation.value, violation.schema)
    return _finding(document, better, "E103", message, hint=hint)


def _empty(document: Document, violation: Violation, expected: str) -> Diagnostic:
    """Nothing stands after the key: perhaps the author forgot to indent what should."""
    token = document.sources.authored(mark_at(document.data, violation.path))
    written = token.lower() in ("null", "~")
    return _finding(
        document,
        violation,
        "E103",
        f"{_name(violation)} is empty; it must be {expected}",
        on_key=not written,
        hint="" if written else _FILL.get(expected, "write it after the colon, or remove the key"),
    )


_FILL = dict.fromkeys(("a mapping", "a list"), "indent what belongs to it, or remove it")


def _show(document: Document, violation: Violation) -> str:
    value = violation.value
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text" if len(value) > 40 or "\n" in value else f"the text '{value}'"
    authored = document.sources.authored(mark_at(document.data, violation.path))
    kind = "true or false" if isinstance(value, bool) else "a number"
    return f"{authored} ({kind})"


def _enum(document: Document, violation: Violation) -> Diagnostic:
    allowed = violation.schema["enum"]
    value = violation.value
    near = _near_option(value, allowed) if isinstance(value, str) else ""
    shown = _show(document, violation)
    listed = ", ".join(_as_yaml(option) for option in allowed)
    hint = f"one of: {listed}"
    if not isinstance(value, str) and all(isinstance(option, str) for option in allowed):
        authored = document.sources.authored(mark_at(document.data, violation.path))
        if authored in allowed:
            key = f"{violation.path[-1]}: " if _is_field(violation) else ""
            hint = f'quote it: {key}"{authored}"'
    shown = f"'{clipped(value)}'" if isinstance(value, str) else shown
    message = f"{_name(violation)} cannot be {shown}"
    # The schema's own hint lists the words as well, but cannot know which one was meant.
    plain = replace(violation, hint="")
    return _finding(document, plain, "E104", message, hint=hint, suggestion=near)


def _near_option(value: str, allowed: list[Any]) -> str:
    """A slip of an allowed word, or a longer name that contains one: `claude-opus-4`."""
    inside = [word for word in allowed if isinstance(word, str) and word in value.lower()]
    foreign = FOREIGN_WORDS.get(value.lower(), "")
    if foreign in allowed:
        return foreign
    return closest(value, allowed) or (inside[0] if len(inside) == 1 and len(inside[0]) > 3 else "")


def _pattern(document: Document, violation: Violation) -> Diagnostic:
    message = f"{_name(violation)} is malformed: '{clipped(str(violation.value))}'"
    example = (violation.schema.get("examples") or [""])[0]
    hint = f"for example {_as_yaml(example)}" if example else _pattern_hint(violation.schema)
    words = violation.value.split()
    near = tidied(violation.value, violation.schema)
    if unquoted := quoting(violation.value, "", violation.schema):
        violation = replace(violation, hint=unquoted)
    if len(words) > 1 and isinstance(violation.path[-1], int):
        violation = replace(violation, hint=f"put commas between the items: {', '.join(words)}")
        near = ""
    return _finding(document, violation, "E105", message, hint=hint, suggestion=near)


def _pattern_hint(schema: Schema) -> str:
    return f"it must match {schema['pattern']}"


def _names(document: Document, violation: Violation) -> Diagnostic:
    inner: Violation = violation.detail
    message = f"'{clipped(str(violation.path[-1]))}' is not a valid name here"
    hint = _pattern_hint(inner.schema) if inner.keyword == "pattern" else ""
    return _finding(document, violation, "E105", message, on_key=True, hint=inner.hint or hint)


def _range(document: Document, violation: Violation) -> Diagnostic:
    limit = violation.detail
    wording = {
        "minimum": f"must be at least {limit}",
        "maximum": f"must be at most {limit}",
        "exclusiveMinimum": f"must be more than {limit}",
        "minLength": "must not be empty"
        if limit == 1
        else f"must have at least {limit} characters",
        "maxLength": f"must have at most {limit} characters",
    }[violation.keyword]
    shown = ""
    if isinstance(violation.value, int | float):
        shown = f", not {violation.value}"
    elif violation.keyword == "maxLength":
        shown = f", not {len(violation.value)}"
    return _finding(document, violation, "E106", f"{_name(violation)} {wording}{shown}")


def _count(document: Document, violation: Violation) -> Diagnostic:
    limit = violation.detail
    entries = "entry" if limit == 1 else "entries"
    if violation.keyword == "maxItems":
        return _finding(
            document, violation, "E106", f"{_name(violation)} has more than {limit} {entries}"
        )
    return _finding(
        document, violation, "E107", f"{_name(violation)} needs at least {limit} {entries}"
    )


def _repeated(document: Document, violation: Violation) -> Diagnostic:
    shown = clipped(str(violation.value))
    parent = violation.path[-2] if len(violation.path) > 1 else "the list"
    return _finding(
        document,
        violation,
        "E108",
        f"'{shown}' stands twice in '{parent}'",
        hint="remove one of them",
    )


def _since(document: Document, violation: Violation) -> Diagnostic:
    since = violation.schema["x-since"]
    authored = document.data.get("version", "?") if isinstance(document.data, dict) else "?"
    message = f'\'{violation.path[-1]}\' needs version "{since}"; this file says "{authored}"'
    return _finding(
        document,
        violation,
        "E109",
        message,
        on_key=True,
        hint=f'write version: "{since}" at the top',
    )


def _explain_other(document: Document, violation: Violation) -> Diagnostic:
    return _finding(document, violation, "E103", f"{_name(violation)} does not have the right form")


_EXPLAINERS: dict[str, Callable[[Document, Violation], Diagnostic]] = {
    "additionalProperties": _unknown,
    "required": _required,
    "type": _type,
    "enum": _enum,
    "const": _explain_other,
    "pattern": _pattern,
    "propertyNames": _names,
    "minimum": _range,
    "maximum": _range,
    "exclusiveMinimum": _range,
    "minLength": _range,
    "maxLength": _range,
    "minItems": _count,
    "maxItems": _count,
    "minProperties": _count,
    "uniqueItems": _repeated,
    "x-since": _since,
}
