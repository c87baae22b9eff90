"""Settings that a step gives its agent: which ones a program can take, and what is wrong with them.

A setting that a program cannot take is refused. To ignore `tools: [Read]` would let an agent write
whose author thinks it cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from orchestrate.agents.base import Permissions
from orchestrate.diagnostics import closest
from orchestrate.record import record

SettingKind = Literal["names", "count", "amount", "word", "tiers", "permissions", "arguments"]
PERMISSIONS: tuple[Permissions, ...] = ("bypass", "edit", "default", "read-only")
TIERS = ("haiku", "sonnet", "opus")


@record
class Setting:
    """One key under `provider_params` or in an agent's file: what it may be, and what it does."""

    kind: SettingKind
    meaning: str


# What every program takes.
COMMON: dict[str, Setting] = {
    "model": Setting("word", "a tier, or a model name"),
    "models": Setting("tiers", "the models that `haiku`, `sonnet` and `opus` stand for"),
    "permissions": Setting(
        "permissions", "`bypass`, `edit` (not for Cursor), `default`, `read-only`"
    ),
    "agent_args": Setting(
        "arguments",
        "arguments of the program's own, given before ours; none that sets permissions, session, "
        "model, prompt or output",
    ),
}

_EXPECTED: dict[SettingKind, str] = {
    "names": "a list of names, or names separated by commas",
    "count": "a whole number above zero",
    "amount": "a number above zero",
    "word": "a word that does not begin with '-'",
    "tiers": "a mapping of haiku, sonnet or opus to model names",
    "permissions": f"one of {', '.join(PERMISSIONS)}",
    "arguments": "a list of arguments that begins with a flag",
}


def setting_faults(
    title: str,
    supported: Mapping[str, Setting],
    permissions: Iterable[Permissions],
    settings: Mapping[str, Any],
) -> tuple[str, ...]:
    """All that is wrong with the settings of a step, in sentences."""
    return tuple(_faults(title, COMMON | dict(supported), tuple(permissions), settings))


def _faults(
    title: str,
    known: Mapping[str, Setting],
    permissions: tuple[Permissions, ...],
    settings: Mapping[str, Any],
) -> Iterator[str]:
    for key, value in settings.items():
        setting = known.get(key)
        if setting is None:
            near = closest(key, known)
            also = f"did you mean '{near}'?" if near else f"it takes {', '.join(known)}"
            yield f"{title} cannot take the setting '{key}'; {also}"
        elif not _fits(setting.kind, value):
            yield f"the setting '{key}' of {title} is {_EXPECTED[setting.kind]}, not {value!r}"
        elif setting.kind == "permissions" and value not in permissions:
            yield permission_fault(title, permissions, value)


def permission_fault(title: str, permissions: Iterable[Permissions], wanted: str) -> str:
    can = ", ".join(permissions)
    return f"{title} does not support permissions '{wanted}', only {can}"


def _fits(kind: SettingKind, value: Any) -> bool:
    match kind:
        case "names":
            listed = value if isinstance(value, list | tuple) else [value]
            return all(is_word(name) for name in listed) and bool(listed == [] or names_of(value))
        case "count":
            return isinstance(value, int) and not isinstance(value, bool) and value > 0
        case "amount":
            return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        case "word":
            return is_word(value)
        case "tiers":
            return isinstance(value, Mapping) and all(
                tier in TIERS and is_word(model) for tier, model in value.items()
            )
        case "permissions":
            return value in PERMISSIONS
        case "arguments":
            return (
                isinstance(value, list | tuple)
                and all(isinstance(one, str) and one.isprintable() and one for one in value)
                and (not value or value[0].startswith("-"))
            )


def is_word(value: object) -> bool:
    """May the value stand in an argument list, where a leading dash would make it an option?"""
    return (
        isinstance(value, str)
        and value.strip() != ""
        and not value.startswith("-")
        and value.isprintable()
    )


def names_of(value: Any) -> tuple[str, ...]:
    """The names in a list, or in a text with commas between them; those in brackets belong to one.

    `Bash(git log, git diff), Read` are two.
    """
    if not isinstance(value, str):
        return tuple(value)
    names, name, depth = [], "", 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append(name.strip())
            name = ""
        else:
            name += character
    names.append(name.strip())
    return tuple(name for name in names if name)


def step_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`agent_config` in our words; B writes models under `providers`, tools as modules."""
    own = {key: value for key, value in config.items() if key not in ("providers", "tools")}
    for provider in config.get("providers") or ():
        if isinstance(provider, Mapping):
            own |= provider.get("config") or {}
    tools = config.get("tools")
    if isinstance(tools, str):
        own["tools"] = tools
    elif tools is not None:
        own["tools"] = [
            tool.get("module", "") if isinstance(tool, Mapping) else tool for tool in tools
        ]
    return own
