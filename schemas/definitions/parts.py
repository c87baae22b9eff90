"""The words in which the schema definitions are written."""

from typing import Any, Final

Schema = dict[str, Any]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_UNSET: Final = object()


def whole(body: str) -> str:
    """Anchor a pattern to the whole value.

    Python's `$` also matches before a final newline and ECMAScript's does not; the look-ahead
    makes both refuse it, so that every validator agrees.
    """
    return f"^(?:{body})$(?!\\n)"


WORD: Final = whole("[A-Za-z0-9_-]+")
VARIABLE: Final = whole("[A-Za-z_][A-Za-z0-9_]*")
KEBAB: Final = whole("[a-z0-9]+(?:-[a-z0-9]+)*")
STEP_KEY: Final = whole("[A-Za-z0-9_][A-Za-z0-9_-]*")
TIMESTAMP: Final = whole(
    "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    "(?:T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\\.[0-9]+)?)?"
    "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
RUN_ID: Final = whole("[0-9]{8}T[0-9]{6}Z-[a-z0-9]{6}")
CHECKSUM: Final = whole("sha256:[0-9a-f]{64}")
RELATIVE_PATH: Final = "^(?!/)(?!(?:[\\s\\S]*/)?\\.\\.(?:/|$(?!\\n)))[\\s\\S]"
ENV_NAME: Final = "^[^=\\x00]+$"

VARIABLE_HINT: Final = "use letters, digits and _, not starting with a digit: review_result"


def field(
    description: str,
    *examples: object,
    default: object = _UNSET,
    hint: str | None = None,
    since: str | None = None,
    **shape: object,
) -> Schema:
    """Describe one property: what an editor shows, then what a value must look like."""
    schema: Schema = {"description": description}
    if hint is not None:
        schema["x-hint"] = hint
    if since is not None:
        schema["x-since"] = since
    if default is not _UNSET:
        schema["default"] = default
    schema["examples"] = list(examples)
    if "ref" in shape:
        schema["$ref"] = f"#/$defs/{shape.pop('ref')}"
    schema.update(shape)
    return schema


def text(description: str, *examples: str, **more: Any) -> Schema:
    """Describe a string."""
    return field(description, *examples, type="string", **more)


def filled(description: str, *examples: str, **more: Any) -> Schema:
    """Describe a string that must not be empty."""
    return text(description, *examples, minLength=1, **more)


def variable(description: str, *examples: str, **more: Any) -> Schema:
    """Describe the name of a variable."""
    return text(description, *examples, pattern=VARIABLE, hint=VARIABLE_HINT, **more)


def choice(description: str, *values: object, **more: Any) -> Schema:
    """Describe one of a few words; the words are their own examples."""
    return field(description, *values, enum=list(values), **more)


def flag(description: str, **more: Any) -> Schema:
    """Describe a boolean."""
    hint = "write true or false, without quotes"
    return field(description, True, False, hint=hint, type="boolean", **more)


def count(description: str, *examples: int, **more: Any) -> Schema:
    """Describe a whole number."""
    return field(description, *examples, type="integer", **more)


def amount(description: str, *examples: float, **more: Any) -> Schema:
    """Describe a number that may have a fraction."""
    return field(description, *examples, type="number", **more)


_DURATION: Final = "(?:[0-9]+d)?(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+(?:\\.[0-9]+)?s)?"
DURATION: Final = whole(f"(?=[0-9]){_DURATION}")
_MORE_THAN_ZERO: Final = whole(f"(?=[0-9dhm.]*[1-9]){_DURATION}")


def duration(description: str, *examples: float | str, **more: Any) -> Schema:
    """Describe a length of time: seconds, or a number with units."""
    return field(
        description,
        *examples,
        hint="write seconds, or as in 90s, 5m, 1h30m",
        type=["number", "string"],
        pattern=_MORE_THAN_ZERO,
        exclusiveMinimum=0,
        **more,
    )


def seconds(description: str, *examples: float | str, kind: str = "number", **more: Any) -> Schema:
    """Describe a length of time with bounds of its own, in fields that took plain numbers first."""
    more = {"hint": "write seconds, or as in 90s, 5m, 1h30m"} | more
    may_be_zero = "exclusiveMinimum" not in more and not more.get("minimum")
    pattern = DURATION if may_be_zero else _MORE_THAN_ZERO
    return field(description, *examples, type=[kind, "string"], pattern=pattern, **more)


def listing(description: str, item: Schema, *examples: list[Any], **more: Any) -> Schema:
    """Describe a list of equal things."""
    return field(description, *examples, type="array", items=item, **more)


def secret_names(description: str, **more: Any) -> Schema:
    """Describe a list of variables of the environment whose values are secret."""
    item = {
        "type": "string",
        "pattern": VARIABLE,
        "x-hint": "write the name of an environment variable: API_TOKEN",
    }
    hint = "write a list of different names: secrets: [GITHUB_TOKEN]"
    more = {"hint": hint} | more
    return listing(description, item, ["GITHUB_TOKEN"], uniqueItems=True, **more)


NEEDED_SECRETS: Final = (
    "Names of environment variables that must be set before {what} starts; every program inherits "
    "them, and their values are masked in everything that is written."
)


def mapping(description: str, value: Schema, *examples: Schema, **more: Any) -> Schema:
    """Describe a map with keys of the author's choice."""
    return field(description, *examples, type="object", additionalProperties=value, **more)


def free(description: str, *examples: Schema, **more: Any) -> Schema:
    """Describe a map whose content is the author's own business."""
    return field(description, *examples, type="object", **more)


def ref(name: str) -> Schema:
    """Point to a shared definition."""
    return {"$ref": f"#/$defs/{name}"}


def record(
    properties: dict[str, Schema],
    *required: str,
    title: str | None = None,
    description: str | None = None,
    extensible: bool = False,
) -> Schema:
    """Describe an object of fixed shape; unknown keys are errors unless it is extensible."""
    schema: Schema = {}
    if title is not None:
        schema["title"] = title
    if description is not None:
        schema["description"] = description
    schema |= {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if not extensible:
        schema["additionalProperties"] = False
    return schema


def document(
    name: str,
    title: str,
    description: str,
    root: Schema,
    defs: dict[str, Schema] | None = None,
    examples: tuple[Schema, ...] = (),
) -> Schema:
    """Complete a schema file from the description of its root object."""
    schema: Schema = {
        "$schema": DRAFT,
        "$id": f"orchestrate:schema/{name}",
        "title": title,
        "description": description,
    }
    if examples:
        schema["examples"] = list(examples)
    schema |= root
    if defs:
        schema["$defs"] = defs
    return schema


def session(**more: Any) -> Schema:
    """Describe the name of a session; the same in recipes and workflows."""
    return text(
        "Steps with the same session name go on in one conversation with their agent, one turn at "
        "a time. Inside an item of a parallel loop a name is the item's own, and a called recipe "
        "has its own names. Default: every step begins a session."
        + (f" Needs version {more['since']}." if "since" in more else ""),
        "builder",
        pattern=WORD,
        maxLength=50,
        hint="use up to 50 letters, digits, - and _: builder",
        **more,
    )


def on_lost() -> Schema:
    """Describe what happens to a lost attempt; the same in every dialect."""
    return choice(
        "What to do when an attempt is lost because the computer or the process keeper died while "
        "it ran. `retry` starts a new, numbered attempt, after three in a row a person decides; "
        "`stop` waits for a person at once, for a step that must not happen twice. Default: retry.",
        "retry",
        "stop",
        default="retry",
        hint="write retry or stop",
    )


def effect(**more: Any) -> Schema:
    """Describe a step with an effect outside the workspace; the same in every dialect."""
    return flag(
        "The step does what cannot be taken back: it pays, pushes, sends. It never runs twice by "
        "itself: there are no retries, a lost or stopped attempt waits for a person, and after an "
        "edit a person says whether it holds (`resume --accept`) or is done again (`--redo`)."
        + (f" Needs version {more['since']}." if "since" in more else "")
        + " Default: false.",
        default=False,
        **more,
    )


def schema_line(name: str) -> Schema:
    """Describe the key by which an editor finds the schema of a JSON file."""
    return text(
        "Where an editor finds this schema, for JSON files, which cannot carry the comment that "
        "YAML files use. It has no effect on the run.",
        f"../schemas/{name}.schema.json",
    )


def spread(what: str, **more: Any) -> Schema:
    """Describe `spread:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return field(
        f"In a run on a fleet, let the machines of this pool take {what}: each in a work tree of "
        "its own, from what the run has published; what they changed is merged afterwards. "
        "`{pool: NAME, resolve: {agent: NAME, prompt: TEXT}}` asks an agent where several have "
        f"changed the same lines. In any other run it means nothing.{needs}",
        "desk",
        {"pool": "desk", "resolve": _RESOLVE_EXAMPLE},
        hint="name a pool: spread: desk",
        ref="spread",
        **more,
    )


_RESOLVE_EXAMPLE = {"agent": "claude", "prompt": "Resolve the conflicts in:\n{{conflicts}}"}
_SPREAD = record(
    {
        "pool": filled("The pool whose machines take them.", "desk"),
        "resolve": field(
            "The agent that is asked where several have changed the same lines; without it the "
            "step fails and names the files.",
            _RESOLVE_EXAMPLE,
            hint="write resolve: {agent: NAME, prompt: TEXT}",
            ref="resolve",
        ),
    },
    "pool",
    title="Items for other machines",
)
_RESOLVE = record(
    {
        "agent": filled(
            "Who resolves them: in a workflow a provider, elsewhere the definition of an agent.",
            "claude",
        ),
        "prompt": filled(
            "What it is told. It works in the merged files, which have git's conflict markers; "
            "`{{conflicts}}` are their names, each on a line. A marker that is left is a failure.",
            "Resolve the conflicts in:\n{{conflicts}}",
        ),
    },
    "agent",
    "prompt",
    title="Resolving conflicts",
)
# One schema with two types, not anyOf: then a wrong key is reported as just that.
SPREADS = {
    "spread": _SPREAD | {"type": ["string", "object"], "minLength": 1},
    "resolve": _RESOLVE,
}
