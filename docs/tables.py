"""Parts of pages that are made from the sources: tables of fields and exit codes, the catalogue."""

from __future__ import annotations

import json
import re
from contextlib import chdir
from pathlib import Path
from typing import Any

from docs.agent_tables import agent_table
from docs.commands import command_text
from docs.pages import REPOSITORY
from docs.spec.items import owners_of, spec_items
from orchestrate.compile import compile_file, require_program
from orchestrate.exits import ENDS, MEANINGS
from orchestrate.plan.nodes import main_plan
from orchestrate.workspace import open_workspace

Schema = dict[str, Any]

# Fields that mean the same in every dialect: docs/reference/common.md has them.
_COMMON_AT_THE_TOP = {"inputs", "outputs", "limits", "secrets"}
_COMMON_IN_STEPS = {
    "call", "with", "session", "spread", "check", "produces", "limits", "on_lost", "onLost",
    "effect",
}  # fmt: skip

_DIALECTS = ("machine", "recipe", "workflow")
# What a definition asks a person, which is described with the common fields.
_QUESTIONS = {
    ("machine", "step"): "approval",
    ("recipe", "step"): "question",
    ("workflow", "step"): "approval",
}
_HEAD = "| field | type | default | meaning |\n|---|---|---|---|"
_DEFAULT = re.compile(r"\s*(?:Default: (.+?)|(?<=[\w)]), default (.+?))\.(?=\s|$)")
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "object": "mapping",
    "array": "list",
}


def make(words: list[str]) -> str:
    """The text of a generated part; its first word says which kind it is."""
    kind, *arguments = words
    match kind:
        case "fields":
            return field_table(*arguments)
        case "common":
            return common_table(*arguments)
        case "catalogue":
            return catalogue_table(*arguments)
        case "command":
            return command_text(*arguments)
        case "agents":
            return agent_table(*arguments)
        case "exits":
            return exit_table()
        case "ends":
            return end_table()
        case "spec":
            return spec_table(*arguments)
        case _:
            raise ValueError(f"there is no generated part '{kind}'")


def spec_table(page: str) -> str:
    """The numbered items of a page of docs/spec, with the modules of the tests that own them."""
    lines = ["| item | source | what must hold | tests |", "|---|---|---|---|"]
    for item in spec_items():
        if item.page == page:
            files = ", ".join(sorted({f"`{path}`" for path in owners_of(item.id)}))
            lines.append(f"| `{item.id}` | {item.source} | {item.sentence} | {files} |")
    return "\n".join(lines) + "\n"


def exit_table() -> str:
    """The exit codes of the command line."""
    rows = (f"| {', '.join(map(str, codes))} | {told} |" for codes, told in MEANINGS.items())
    return "\n".join(["| code | what happened |", "|---|---|", *rows]) + "\n"


def end_table() -> str:
    """The kinds of a run's end."""
    rows = (f"| `{kind}` | {end.status} | {end.code} |" for kind, end in ENDS.items())
    return "\n".join(["| kind | status | exit code |", "|---|---|---|", *rows]) + "\n"


def field_table(schema_name: str, definition: str) -> str:
    """The fields of a definition, which is named like `step` or, inside it, `depends_on/inject`.

    Those that every dialect has are only named.
    """
    found = _definition(schema_name, definition)
    names = [name for name in found["properties"] if name != "$schema"]  # the pages say so once
    common = [name for name in names if name in _common(schema_name, definition)]
    rows = [_row(name, found) for name in names if name not in common]
    if common:
        listed = ", ".join(f"`{name}`" for name in common)
        rows.append(f"| {listed} | | | [as in every dialect](common.md) |")
    text = "\n".join([_HEAD, *rows]) + "\n"
    if (schema_name, definition) in _QUESTIONS:
        question = f"(#{_QUESTIONS[schema_name, definition]})"
        text = text.replace(question, "(common.md#approval)")
    return text.replace("(#spread)", "(common.md#spread)")


def common_table(definition: str, *schema_names: str) -> str:
    """The fields that every dialect has, each as the first of these schemas describes it."""
    rows: dict[str, str] = {}
    for schema_name in schema_names:
        name = schema_name if definition == "top" else definition
        found = _definition(schema_name, name)
        for field in found["properties"]:
            if field in _common(schema_name, name):
                rows.setdefault(field, _row(field, found))
    return "\n".join([_HEAD, *rows.values()]) + "\n"


def _common(schema_name: str, definition: str) -> set[str]:
    if schema_name not in _DIALECTS:
        return set()
    return {schema_name: _COMMON_AT_THE_TOP, "step": _COMMON_IN_STEPS}.get(definition, set())


def _definition(schema_name: str, definition: str) -> Schema:
    schema = json.loads((REPOSITORY / "schemas" / f"{schema_name}.schema.json").read_text("utf-8"))
    name, *inner = definition.split("/")
    found: Schema = schema if name not in schema.get("$defs", {}) else schema["$defs"][name]
    for key in inner:
        found = _strict(found["properties"][key])
    return found


def _row(name: str, definition: Schema) -> str:
    value = definition["properties"][name]
    meaning, default = _meaning(value)
    if name in definition.get("required", ()):
        default = "**required**"
    cells = (f"`{name}`", _type(_strict(value)), default, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _strict(schema: Schema) -> Schema:
    """The value itself, where an include may stand instead of it."""
    strict: Schema = schema["anyOf"][-1] if "anyOf" in schema else schema
    return strict


def _meaning(schema: Schema) -> tuple[str, str]:
    """The description without its default, which has a column of its own."""
    text = schema["description"]
    told = _DEFAULT.search(text)
    default = ""
    if told is not None:
        text = (text[: told.start()].rstrip(",") + ". " + text[told.end() :]).strip()
        text = re.sub(r"\s+", " ", re.sub(r"\.\s*\.", ".", text))
        default = told[1] or told[2]
    if "default" in schema and not isinstance(schema["default"], dict):
        default = f"`{json.dumps(schema['default']).strip(chr(34))}`"
    return text.replace("\n", " "), default


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema.get("type")
    if kinds is None:
        return "any"
    if isinstance(kinds, list):
        return " or ".join(_TYPES[kind] for kind in kinds)
    if kinds == "array":
        return f"list of {_type(_strict(schema['items']))}" if "items" in schema else "list"
    if kinds == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {_type(_strict(schema['additionalProperties']))}"
    return _TYPES[kinds] + _range(schema)


def _range(schema: Schema) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f", at least {schema['minimum']}"
    if "exclusiveMinimum" in schema:
        return f", more than {schema['exclusiveMinimum']}"
    return ""


def catalogue_table(folder: str) -> str:
    """The recipes of a folder of `workflows/`: `.` is the catalogue proper."""
    lines = ["| id | dialect | steps | what it does |", "|---|---|---|---|"]
    for path in sorted((REPOSITORY / "workflows" / folder).glob("*.yaml")):
        file = path.relative_to(REPOSITORY)
        with chdir(REPOSITORY):
            plan = main_plan(require_program(compile_file(file, open_workspace())))
        name = path.relative_to(REPOSITORY / "workflows").with_suffix("").as_posix()
        about = plan.description or _opening_sentence(path)
        steps = sum(node.is_step for node in plan.blocks[0].nodes)
        lines.append(f"| `{name}` | {plan.dialect} | {steps} | {about} |")
    return "\n".join(lines) + "\n"


def _opening_sentence(path: Path) -> str:
    """Workflows have no description; their first comment says what they are for."""
    words = []
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            break
        if "yaml-language-server" not in line:
            words.append(line.lstrip("# "))
    return re.split(r"\.(?:\s|$)", " ".join(words), maxsplit=1)[0]
