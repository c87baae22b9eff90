"""An example of what a JSON Schema asks for, for rehearsals: its required fields, simply filled."""

from __future__ import annotations

from typing import Any

_DEEPEST = 20


def example_of(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """A value that the schema probably takes; None where it asks for nothing."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return None
    root = schema if root is None else root
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    if "$ref" in schema:
        return example_of(_resolved(schema["$ref"], root), root, depth + 1)
    for key in ("oneOf", "anyOf"):
        if schema.get(key):
            return example_of(schema[key][0], root, depth + 1)
    return _typed(schema, root, depth)


def _typed(schema: dict[str, Any], root: Any, depth: int) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind is None:
        kind = "object" if {"properties", "required", "allOf"} & schema.keys() else None
    match kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            item = example_of(schema.get("items"), root, depth + 1)
            return ["rehearsed" if item is None else item] * int(schema.get("minItems", 1))
        case "string":
            return "rehearsed".ljust(int(schema.get("minLength", 0)), ".")
        case "integer" | "number":
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            return min(least, schema["maximum"]) if "maximum" in schema else least
        case "boolean":
            return True
        case _:
            return None


def _object(schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for part in (*(schema.get("allOf") or ()), schema):
        properties = part.get("properties") or {}
        for name in part.get("required") or ():
            example = example_of(properties.get(name), root, depth + 1)
            value[name] = "rehearsed" if example is None else example
    return value


def _resolved(pointer: str, root: Any) -> Any:
    """A reference inside the schema's own file; others are not looked up."""
    found = root
    for part in pointer.removeprefix("#").split("/")[1:]:
        found = found.get(part) if isinstance(found, dict) else None
    return found if pointer.startswith("#") else None
