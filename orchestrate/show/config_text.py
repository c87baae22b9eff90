"""The settings in effect, as YAML with the origin of each, without what looks like a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrate.plan.visible import visible
from orchestrate.regex import regex

_PLAIN = regex(r"[A-Za-z./][\w./@-]*( [\w./@-]+)*")
# Words that YAML would not read as texts.
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
# Variables for agents whose values are hidden, by a part of their names.
_SECRET = regex(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
_HIDDEN = "***"
_WIDEST = 40


def without_secrets(value: Any, name: str = "", inside: str = "") -> Any:
    """The settings without what looks like a secret: variables of agents, paths of webhooks."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, key, name) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, name, inside) for item in value]
    if name == "webhook" and isinstance(value, str):
        return "/".join([*value.split("/", 3)[:3], _HIDDEN])
    return _HIDDEN if inside == "env" and _SECRET.search(name) else value


def leaves_of(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of all values that are not mappings themselves."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from leaves_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def yaml_lines(
    settings: Mapping[str, Any], origins: Mapping[str, str], prefix: str = "", indent: str = ""
) -> Iterator[str]:
    """The settings as YAML, with origins as comments."""
    rows: list[tuple[str, str, str, Mapping[str, Any] | None]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            rows.append((f"{indent}{_scalar(name)}:", "", f"{prefix}{name}.", value))
        else:
            origin = origins.get(prefix + name, "")
            rows.append((f"{indent}{_scalar(name)}: {_scalar(value)}", origin, "", None))
    # One long value must not push the places of all others off the screen.
    lengths = (len(text) for text, origin, _, _ in rows if origin)
    width = max((length for length in lengths if length <= _WIDEST), default=0)
    for text, origin, deeper, value in rows:
        yield f"{text:{width}}  # {visible(origin)}" if origin else text
        if value is not None:
            yield from yaml_lines(value, origins, deeper, indent + "  ")


def _scalar(value: Any) -> str:
    """A value as YAML; JSON is YAML, and ASCII has nothing in it that a terminal acts on."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    import json

    return json.dumps(value)
