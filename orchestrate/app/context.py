"""The values that a run's context is given from outside: --context and --context-file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.app.settings import FLAGS
from orchestrate.dialects.lowering import constant_map
from orchestrate.errors import DefinitionError, UsageError
from orchestrate.exits import UNUSABLE
from orchestrate.lang.curly import NAMESPACES
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.override import with_context
from orchestrate.source.json import parse_json
from orchestrate.source.located import Sources, pack
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.yaml import parse_yaml

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


def with_given_context(
    program: Program,
    settings: RunSettings,
    workspace: Workspace,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> Program:
    """The program with the values of --context-file and --context, and others over them."""
    values = context_of(program, settings, workspace) | given_values(program, values)
    return with_context(program, constant_map(values)) if values else program


def context_of(program: Program, settings: RunSettings, workspace: Workspace) -> dict[str, Any]:
    """The values that --context-file and --context give, the latter over the former."""
    values: dict[str, Any] = {}
    if settings.context_file is not None:
        values |= _context_file(program, settings.context_file, workspace)
    return values | _context_pairs(program, settings.context)


def given_values(program: Program, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that a caller of our own gives; they stand for those of a file."""
    if values:
        FLAGS["context"].require_applicable(main_plan(program).dialect)
        _refuse_reserved(program, values, "context")
    return dict(values)


def _context_pairs(program: Program, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`KEY=VALUE`: always a text; the last one of a key counts."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"--context {pair!r} is not KEY=VALUE", "e.g. --context file=src/app.py"
            )
        if "." in key:
            raise UsageError(
                f"--context {pair!r}: the name '{key}' has a dot, and no step could read it",
                f"give the whole of '{key.partition('.')[0]}' in a file: --context-file FILE",
            )
        values[key] = value
    _refuse_reserved(program, values, "--context")
    return values


def _context_file(program: Program, name: str, workspace: Workspace) -> dict[str, Any]:
    """A mapping in a JSON or YAML file; types are kept."""
    path = Path(os.path.abspath(name))
    display = workspace.display(path)
    sources = Sources()
    faults: list[ReadFault] = []
    data: Any = None
    try:
        source = read_source(path, display)
        sources.register(source)
        parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
        data = parse(source.text, 0, faults.append)
    except ReadFault as fault:
        faults.append(fault)
    if faults and not sources.files:
        raise UsageError(f"--context-file: '{display}': {faults[0].message}", faults[0].hint)
    if faults:
        found = (
            sources.diagnostic(
                f.code, f.message, sources.span(pack(0, f.line, f.column)), hint=f.hint
            )
            for f in faults
        )
        raise DefinitionError(tuple(found), UNUSABLE)
    if not isinstance(data, dict):
        raise UsageError(
            f"--context-file: '{display}' is not a mapping", 'e.g. {"file": "src/app.py"}'
        )
    _refuse_reserved(program, data, "--context-file")
    return dict(data)


def _refuse_reserved(program: Program, values: Iterable[str], flag: str) -> None:
    """A recipe's own names cannot be set from outside (B)."""
    if main_plan(program).dialect == "recipe":
        for key in values:
            if key in NAMESPACES:
                raise UsageError(f"{flag}: '{key}' is a reserved name")
