"""Tables of docs/reference/agents.md that the adapters know: programs and their settings."""

from __future__ import annotations

from orchestrate.agent_names import BACKENDS
from orchestrate.agents.registry import PROGRAMS
from orchestrate.agents.settings import COMMON

_KINDS = {
    "names": "list",
    "count": "whole number",
    "amount": "number",
    "word": "text",
    "tiers": "mapping",
    "permissions": "text",
    "arguments": "list",
}


def agent_table(about: str) -> str:
    return {"programs": _programs, "settings": _settings}[about]()


def _programs() -> str:
    rows = []
    for name in PROGRAMS:
        program = PROGRAMS[name]().program
        also = [alias for alias, ours in BACKENDS.items() if ours == name != alias]
        how = program.install
        rows.append(
            f"| `{name}` | {_listed(also)} | {_listed(program.executables)} | `{program.variable}` "
            f"| {_listed(program.places)} | {how if how.startswith('see') else f'`{how}`'} |"
        )
    head = "| name | also | program | variable | looked for in, before PATH | install |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows]) + "\n"


def _settings() -> str:
    taken: dict[str, list[str]] = {name: [] for name in COMMON}
    known = dict(COMMON)
    for name in PROGRAMS:
        for setting, about in PROGRAMS[name]().settings.items():
            taken.setdefault(setting, []).append(name)
            known.setdefault(setting, about)
    rows = (
        f"| `{setting}` | {_KINDS[known[setting].kind]} | {known[setting].meaning} "
        f"| {_listed(programs) or 'all'} |"
        for setting, programs in taken.items()
    )
    head = "| setting | type | meaning | taken by |"
    return "\n".join([head, "|---|---|---|---|", *rows]) + "\n"


def _listed(words: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)
