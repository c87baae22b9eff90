"""Reads one configuration file: its settings with their lines, or everything wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.agent_names import BACKENDS
from orchestrate.app.config.model import Config, Origin
from orchestrate.app.working.webhook import address_fault
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError, DefinitionError, OrchestrateError
from orchestrate.plan.durations import seconds_of
from orchestrate.source.breaks import unify_line_ends
from orchestrate.source.explain import explain
from orchestrate.source.include import Document
from orchestrate.source.located import (
    LocatedMap,
    Source,
    Sources,
    column_of,
    line_of,
    located_map,
    pack,
)
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.schema import check_shipped
from orchestrate.source.yaml import parse_yaml

if TYPE_CHECKING:
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.source.include import Document
    from orchestrate.source.located import LocatedMap

_INVALID = 5
# As the schema says, which does not look into texts such as 5m.
_MOST_PATIENCE_S = 300


def read_config_file(path: Path, display: str) -> LocatedMap:
    """The settings, located; a file that does not fit its schema is refused, with the places."""
    return read_settings_file(path, display, "config")


def read_settings_file(path: Path, display: str, schema: str) -> LocatedMap:
    """A file of settings, located, that fits one of our schemas."""
    sources = Sources()
    faults: list[ReadFault] = []
    data: Any = None
    try:
        source = read_source(path, display)
        source.text = unify_line_ends(source.text)
        sources.register(source)
        data = parse_yaml(source.text, 0, faults.append)
    except ReadFault as fault:
        if fault.code == "E005":  # only comments: every line is optional
            return LocatedMap(0)
        faults.append(fault)
    if faults and not sources.files:
        raise ConfigError(f"{display}: {faults[0].message}", faults[0].hint)
    if faults:
        found = tuple(
            sources.diagnostic(
                f.code, f.message, sources.span(pack(0, f.line, f.column)), hint=f.hint
            )
            for f in faults
        )
        raise DefinitionError(found, _INVALID)
    if not isinstance(data, LocatedMap):
        raise ConfigError(f"{display} is not a mapping", "e.g. backend: codex")
    refused = setting_faults(Document(path, data, sources), schema)
    if refused:
        raise DefinitionError(tuple(refused), _INVALID)
    return data


def place_of(display: str, settings: LocatedMap, name: str) -> str:
    """Where a file says so: FILE:LINE:COLUMN."""
    mark = settings.key_mark(name)
    return f"{display}:{line_of(mark) + 1}:{column_of(mark) + 1}"


def read_one_setting(path: Path, name: str, fault: OrchestrateError) -> str | None:
    """The text of one setting in a file that is faulty elsewhere; else the fault is raised."""
    try:
        text = read_source(path, str(path)).text
        faults: list[ReadFault] = []
        data = parse_yaml(text, 0, faults.append) if name in text else None
    except ReadFault:
        raise fault from None
    value = data.get(name) if isinstance(data, LocatedMap) else None
    if faults or not isinstance(value, str | None) or value == "":
        raise fault
    return value


def setting_faults(document: Document, schema: str = "config") -> list[Diagnostic]:
    """What the schema has against the settings, and the unknown names of agents."""
    violations = check_shipped(schema, document.data)
    if violations:
        explained = (explain(document, violation) for violation in violations)
        return [diagnostic for diagnostic in explained if diagnostic is not None]
    if schema != "config":
        return []
    return [*_unknown_agents(document), *_unclear_notifications(document)]


def _unknown_agents(document: Document) -> list[Diagnostic]:
    """`backend` may be an alias; under `agents` only our own name has an effect."""
    data, own = document.data, tuple(dict.fromkeys(BACKENDS.values()))
    named = [(data["backend"], data.value_mark("backend"))] if "backend" in data else []
    wrong = [(name, mark) for name, mark in named if name not in BACKENDS]
    if data.get("agents"):
        wrong += [(name, mark) for name, _, mark, _ in data["agents"].entries() if name not in own]
    found = []
    for name, mark in wrong:
        found.append(
            document.sources.diagnostic(
                "E104", f"there is no agent '{name}'", document.sources.span(mark),
                hint=f"known: {', '.join(own)}",
                suggestion=BACKENDS.get(name) or closest(name, own),
            )
        )  # fmt: skip
    return found


def _unclear_notifications(document: Document) -> list[Diagnostic]:
    """Each needs exactly one way to be delivered, which the schema cannot say."""
    ways = ("command", "webhook", "webhook_env")
    listed = document.data.get("notifications")
    found: list[Diagnostic] = []
    for number, entry in enumerate(listed or ()):
        given = [way for way in ways if way in entry]
        if len(given) != 1:
            what = f"has both '{given[0]}' and '{given[1]}'" if given else "has no receiver"
            mark = entry.key_mark(given[1]) if given else listed.marks[number]
            found.append(
                document.sources.diagnostic(
                    "E104" if given else "E102", f"the notification {what}",
                    document.sources.span(mark), hint=f"give it one of {', '.join(ways)}",
                )
            )  # fmt: skip
            continue
        if seconds_of(entry.get("timeout", 0)) > _MOST_PATIENCE_S:
            span = document.sources.span(entry.value_mark("timeout"))
            message = f"a notification may take at most {_MOST_PATIENCE_S} seconds"
            found.append(document.sources.diagnostic("E106", message, span, hint="write 5m"))
        fault = address_fault(entry["webhook"]) if "webhook" in entry else ""
        if fault:
            span = document.sources.span(entry.value_mark("webhook"))
            hint = "write it as https://HOST/PATH"
            found.append(document.sources.diagnostic("E105", fault, span, hint=hint))
    return found


def overlay(
    config: Config, values: dict[str, Any], over: LocatedMap, display: str, prefix: str = ""
) -> None:
    """Mappings merge, so that a project's agents do not take away the user's; the rest replaces."""
    for name, value, mark, _ in over.entries():
        dotted = prefix + name
        if isinstance(value, LocatedMap):
            values[name] = dict(values.get(name) or {})
            overlay(config, values[name], value, display, f"{dotted}.")
        elif dotted == "secrets":
            # What one file names must not stop being masked because another names something else.
            values[name] = list(dict.fromkeys((*values.get(name, ()), *value)))
            for place, secret in enumerate(value):
                line = line_of(value.marks[place]) + 1
                config.origins.setdefault(f"secrets.{secret}", Origin(display, line))
            config.origins[dotted] = Origin(display, line_of(mark) + 1)
        else:
            values[name] = value
            config.origins[dotted] = Origin(display, line_of(mark) + 1)


def typed(variable: str, text: str, kind: Callable[[str], Any], name: str, inside: str = "") -> Any:
    """The value of a variable; it has to fit the schema as the setting itself does."""
    try:
        value = kind(text)
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}', which is not a number") from None
    if check_shipped("config", {inside: {name: value}} if inside else {name: value}):
        sources = Sources()
        sources.register(Source(variable, Path(variable), text))
        data = located_map(0, [(name, value, 0, 0)])
        data = located_map(0, [(inside, data, 0, 0)]) if inside else data
        document = Document(Path(variable), data, sources)
        fault = setting_faults(document)[0]
        raise ConfigError(f"{variable}: {fault.message}", fault.hint)
    return value
