"""Opens a strict schema to authored files, in which any value may be pulled in by `$include`."""

from definitions.parts import Schema, field

ANNOTATIONS = ("title", "description", "x-hint", "x-since", "default", "examples")
_INCLUDE = {"$ref": "#/$defs/include"}


def _target(description: str, *examples: object) -> Schema:
    return field(
        description,
        *examples,
        hint="write a path, path#/pointer or #/pointer, or a list of those",
        type=["string", "array"],
        minLength=1,
        minItems=1,
        items={"type": "string", "minLength": 1},
    )


INCLUDE_DEFINITION: Schema = {
    "title": "Include",
    "description": (
        "A mapping built on another one: the target is the base and the other keys are a JSON "
        "merge patch over it (maps merge, null removes, everything else replaces). The result is "
        "checked after it is put together."
    ),
    "type": "object",
    "properties": {
        "$include": _target(
            "Where the base comes from: a path relative to this file, path#/json/pointer, or "
            "#/pointer into this file; of a list, later targets are applied over earlier ones. "
            "YAML and JSON files give data, .md and .txt files give one string.",
            "shared/review-commit-steps.yaml",
            "../prompts/review.md",
            "#/steps/review",
            ["base.yaml", "overrides.yaml#/strict"],
        ),
        "$ref": _target(
            "Another spelling of `$include`, with the same meaning.",
            "shared/review-commit-steps.json#/code-review",
        ),
    },
    "anyOf": [{"required": ["$include"]}, {"required": ["$ref"]}],
}


def allow_includes(schema: Schema, name: str) -> Schema:
    """Let every value of a document schema also be a mapping with `$include` or `$ref`.

    The strict form is always the last branch: a checker that reports that branch's errors talks
    about what the author meant, and a composed document (no `$include` left) meets only it.
    """
    kept = ("$schema", "$id", *ANNOTATIONS)
    head = {key: value for key, value in schema.items() if key in kept}
    root = {key: value for key, value in schema.items() if key not in (*kept, "$defs")}
    defs = {key: _open_inside(value) for key, value in schema.get("$defs", {}).items()}
    return head | {
        "anyOf": [_INCLUDE, {"$ref": f"#/$defs/{name}"}],
        "$defs": {"include": INCLUDE_DEFINITION, name: _open_inside(root), **defs},
    }


def _open_value(schema: Schema) -> Schema:
    """Put the choice between an include and the value itself around a value's schema."""
    outside = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    inside = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if not inside:
        return schema
    return outside | {"anyOf": [_INCLUDE, _open_inside(inside)]}


def _open_inside(schema: Schema) -> Schema:
    """Open the values below a schema, leaving the schema itself strict."""
    opened = dict(schema)
    if "properties" in schema:
        opened["properties"] = {k: _open_value(v) for k, v in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            opened[keyword] = _open_value(schema[keyword])
    for keyword in ("anyOf", "allOf"):
        if keyword in schema:
            opened[keyword] = [_open_inside(branch) for branch in schema[keyword]]
    return opened
