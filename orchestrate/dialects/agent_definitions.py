"""An agent's definition file as a run uses it: the fields we know, and the text below them.

Whether a file is well formed the compiler has said already (`agent_files.py`).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from orchestrate.catalogue import agent_places
from orchestrate.errors import ConfigError
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.source.breaks import unify_line_ends
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.yaml import parse_yaml
from orchestrate.workspace import Workspace

KNOWN = ("name", "description", "model", "tools", "backend")
_FRONT = regex(r"\A---[ \t]*\n(.*?)^---[ \t]*\n?", re.MULTILINE | re.DOTALL)


class NoAgentError(ConfigError):
    """No file defines the agent."""


@record
class AgentFile:
    """What an agent's file says; `body` is its system prompt."""

    fields: dict[str, Any]
    body: str


def read_agent(name: str, workspace: Workspace) -> AgentFile:
    """The definition of an agent, or a refusal that names the places (rulings §8)."""
    places = agent_places(name, workspace)
    path = next((place for place in places if os.path.isfile(place)), None)
    if path is None:
        shown = " and ".join(place.relative_to(workspace.root).as_posix() for place in places)
        raise NoAgentError(
            f"there is no agent '{name}'",
            f"looked for {shown} in the workspace",
        )
    try:
        return _read(path, workspace.display(path), _version(path))
    except ReadFault as fault:
        raise ConfigError(
            f"the agent '{name}' cannot be read: {fault.message}", fault.hint
        ) from None


def _version(path: Path) -> tuple[int, ...]:
    """Tells a file from one that was changed or put in its place."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=256)
def _read(path: Path, display: str, version: tuple[int, ...]) -> AgentFile:  # noqa: ARG001
    """A loop asks for the same agent with each item, and its file is read once."""
    text = unify_line_ends(read_source(path, display).text)
    front = _FRONT.match(text)
    data = parse_yaml(front[1], 0, _refuse) if front and front[1].strip() else {}
    fields = {key: data[key] for key in KNOWN if isinstance(data, dict) and key in data}
    return AgentFile(fields, text[front.end() :] if front else text)


def _refuse(fault: ReadFault) -> None:
    raise fault
