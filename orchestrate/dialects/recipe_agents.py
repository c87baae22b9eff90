"""Agents that recipes name: which names are possible, and where their definitions would lie."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.diagnostics import closest
from orchestrate.dialects.catalogue import agent_places
from orchestrate.dialects.lowering import Lowering
from orchestrate.source.located import LocatedMap

_LONGEST_NAME = 200
_SUFFIX = ".md"


def check_agent(work: Lowering, step: LocatedMap, name: str) -> None:
    """A name that can lead nowhere is an error; one without a definition is told once."""
    if fault := _name_fault(name):
        problem, hint = fault
        message = f"'{name[:60]}' is no agent's name: {problem}"
        work.report("E105", message, step, "agent", hint=hint)
    elif work.first_time(f"agent {name}") and not work.library.knows_agent(name):
        root = work.workspace.root
        places = agent_places(name, work.workspace)
        shown = " and ".join(path.relative_to(root).as_posix() for path in places)
        work.report("W104", f"there is no agent '{name}' here", step, "agent",
                    hint=f"looked for {shown}; write one of them, or name another agent",
                    suggestion=_near_agent(name, places))  # fmt: skip


def _name_fault(name: str) -> tuple[str, str] | None:
    """Why a name can never lead to a definition file, and what to write instead."""
    hint = "write a name as in agent: code-reviewer, or folder:code-reviewer"
    if "{{" in name:
        return "variables are not replaced here", "write one step per agent, with a condition each"
    if "/" in name or "\\" in name:
        last = name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(_SUFFIX)
        plain = last.replace("-", "_").isidentifier() and len(last) < _LONGEST_NAME
        return "it is a path", f"write its name alone: agent: {last}" if plain else hint
    if not name.isprintable():
        return "it contains a character that no name can have", hint
    if len(name) > _LONGEST_NAME:
        return "it is too long", hint
    if any(part.strip() in ("", ".", "..") for part in name.split(":")):
        return "a part of it names nothing", hint
    return None


def _near_agent(name: str, places: tuple[Path, ...]) -> str:
    """An agent whose name, or the name of whose folder, is close."""
    folder, colon, last = name.rpartition(":")
    files = [file for place in places for file in _names_in(place.parent)]
    near = closest(last, [file[: -len(_SUFFIX)] for file in files if file.endswith(_SUFFIX)])
    if near:
        return folder + colon + near
    if not folder or ":" in folder:
        return ""
    for place in places:
        other = closest(folder, _names_in(place.parent.parent))
        if other and os.path.isfile(place.parent.parent / other / place.name):
            return f"{other}:{last}"
    return ""


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
