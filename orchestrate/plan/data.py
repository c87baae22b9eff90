"""What an op reads and keeps: files, captured output, an environment."""

from __future__ import annotations

from typing import Literal

from orchestrate.plan.expr import Text
from orchestrate.record import record


@record
class FileText:
    """The literal contents of a file, read when the step runs."""

    path: Text


@record
class Inject:
    """How the files a step depends on are shown to the agent (C 1.1.1).

    `sections` is the object form with its `Required:` / `Optional (if available):` headings;
    `inject: true` gives the flat list.
    """

    mode: Literal["list", "content"]
    instruction: str
    position: Literal["prepend", "append"]
    sections: bool


@record
class FileNeeds:
    """Files that must (or may) exist right before a step starts."""

    required: tuple[Text, ...] = ()
    optional: tuple[Text, ...] = ()
    inject: Inject | None = None


@record
class Require:
    """An assertion on a captured JSON value (C 1.3). `equals` holds only with `has_equals`."""

    pointer: str
    exists: bool = True
    has_equals: bool = False
    equals: str | int | float | bool | None = None
    type: str | None = None


@record
class Capture:
    """What becomes of a program's standard output, or an answer.

    `value`: it is a value for variables (B): `any` is structured where it is JSON, `text` never;
    with `json` there must be JSON in it, or the step fails.
    """

    mode: Literal["text", "lines", "json"] = "text"
    allow_parse_error: bool = False
    schema: Text | None = None
    require: tuple[Require, ...] = ()
    output_file: Text | None = None
    value: Literal["", "any", "text", "json"] = ""
    # Of a long text keep the end, and after a failure what was printed to stderr, too.
    from_end: bool = False


@record
class Environment:
    """`secrets` are taken from our own environment; `variables` win over them (C)."""

    variables: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


INHERIT = Environment()
