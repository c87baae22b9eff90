"""What a run is told: the inputs of a definition, the same in every dialect."""

from definitions.parts import (
    VARIABLE,
    VARIABLE_HINT,
    Schema,
    amount,
    choice,
    field,
    filled,
    flag,
    listing,
    mapping,
    record,
    ref,
    text,
)

TYPES = ("string", "integer", "number", "boolean", "list", "object", "path", "command")
_ANY = ["string", "number", "boolean", "array", "object", "null"]

_INPUT = record(
    {
        "type": choice(
            "What the value is. `path` is a file or folder in the workspace that must exist, "
            "`command` an argument list, or a text that is split as a shell would. Default: "
            "string.",
            *TYPES,
            default="string",
            hint=f"write one of {', '.join(TYPES)}",
        ),
        "description": text("What to give; shown where the value is missing.", "What to build"),
        "default": field(
            "The value of a run that is given none. Without it the input is required.", 3, type=_ANY
        ),
        "enum": listing(
            "The values that are allowed.",
            {"type": ["string", "number", "boolean"]},
            ["low", "high"],
            minItems=1,
            hint="write a list of values: enum: [low, high]",
        ),
        "pattern": filled(
            "A regular expression that the whole text must match.", "[a-z]+", hint="quote it"
        ),
        "minimum": amount("The smallest number, or the shortest text or list.", 1),
        "maximum": amount("The largest number, or the longest text or list.", 10),
        "secret": flag(
            "The value is masked wherever it would be shown, and kept nowhere: it comes from "
            "ORCHESTRATE_INPUT_NAME or is asked for at the terminal. Default: false.",
            default=False,
        ),
    },
    title="Input",
    description="A value that a run is told: its default alone, or a mapping that says more.",
)
# One schema with all types, not anyOf: then a wrong key is reported as just that.
INPUT: Schema = _INPUT | {"type": _ANY}


def inputs(read_as: str, **more: object) -> Schema:
    """Describe `inputs:`; `read_as` is how the dialect writes one of them."""
    return mapping(
        "What a run is told, by name: `orchestrate run FILE TEXT` gives the first, "
        "`-i NAME=VALUE` any of them. An input is its default (`rounds: 3`) or a mapping with "
        f"type, description and more. Read as {read_as}.",
        ref("input"),
        {"task": {"description": "What to build"}, "rounds": 3},
        hint="write a mapping: inputs: { task: { description: What to build } }",
        propertyNames={"pattern": VARIABLE, "x-hint": VARIABLE_HINT},
        **more,
    )


def outputs(read_as: str, **more: object) -> Schema:
    """Describe `outputs:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return mapping(
        "What the run gives in the end, by name: texts with variables, or one variable alone, "
        f"which keeps its type ({read_as}). `--json`, the state and a caller have it. An output "
        f"without a value is left out.{needs}",
        {"type": _ANY},
        {"summary": read_as},
        hint=f'write a mapping: outputs: {{ summary: "{read_as}" }}',
        propertyNames={"pattern": VARIABLE, "x-hint": VARIABLE_HINT},
        **more,
    )


def call(given: str, **more: object) -> Schema:
    """Describe `call:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return filled(
        f"Run another file, of any dialect, in its own context: a path from this file on, or the "
        f"id of a recipe. It sees only what `with` gives it. {given}{needs}",
        "review-and-commit",
        "parts/audit.yaml",
        hint="name one file or id: call: parts/audit.yaml",
        **more,
    )


def given(read_as: str, **more: object) -> Schema:
    """Describe `with:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return mapping(
        f"What the called file is given: its inputs, by name. One variable alone ({read_as}) keeps "
        f"its type.{needs}",
        {"type": _ANY},
        {"task": read_as},
        hint=f'write a mapping: with: {{ task: "{read_as}" }}',
        **more,
    )
