"""Agents that recipes name: which names are possible, and where their definitions would lie."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

from orchestrate.catalogue import agent_places
from orchestrate.diagnostics import closest
from orchestrate.dialects.agent_files import check_agent_file
from orchestrate.dialects.lowering import Lowering
from orchestrate.source.located import LocatedMap
from orchestrate.workspace import Workspace, is_within, package_data

_LONGEST_NAME = 200
_SUFFIX = ".md"


def check_agent(work: Lowering, step: LocatedMap, name: str) -> None:
    """A name that can lead nowhere is an error; one without a definition is told once."""
    written, name = name, work.workspace.agent_called(name)
    if fault := _name_fault(name):
        problem, hint = fault
        message = f"'{name[:60]}' is not an agent's name: {problem}"
        work.report("E105", message, step, "agent", hint=hint)
    elif work.first_time(f"agent {name}"):
        places = agent_places(name, work.workspace)
        if work.library.knows_agent(name):
            found = (place for place in places if os.path.isfile(place))
            check_agent_file(work, name, next(found, places[0]))
            return
        also = "" if written == name else f", which '{written}' stands for"
        work.report("W104", f"there is no agent '{name}' here{also}", step, "agent",
                    hint=_where_to_look(work, name, places),
                    suggestion=_near_agent(name, places))  # fmt: skip


def _where_to_look(work: Lowering, name: str, places: tuple[Path, ...]) -> str:
    """Where the agent was looked for, and which other folder the author may have in mind."""
    root = work.workspace.root
    folder = Path(os.path.realpath(work.document.path)).parent
    shown = " and ".join(path.relative_to(root).as_posix() for path in places)
    hint = f"looked for {shown} in the workspace"
    if folder != root:
        display = work.workspace.display(root)
        hint += ", which is the current folder" if display == "." else f" {display}"
    around = [place for place in (folder, *folder.parents) if place not in (root, _home())]
    if (owner := next((place for place in around if _has_agent(place, name)), None)) is not None:
        return f"{hint}; there is one in another folder: add --working-dir {_typed(owner)}"
    file = quote(work.workspace.display(Path(work.document.path)))
    hint += f"; `orchestrate init --agents-of {file}` writes a stub; or name another agent"
    if not _has_agents(root):
        other = next((place for place in around if _has_agents(place)), None)
        if other is not None:
            return f"{hint}, or use the agents of another folder: --working-dir {_typed(other)}"
    if not folder.is_relative_to(root) and not is_within(folder, package_data()):
        hint += ", or name the recipe's own workspace with --working-dir"
    return hint


def _home() -> Path:
    """The user's own folder: the agents in it are meant for every project, and it is none."""
    return Path(os.path.realpath(os.path.expanduser("~")))


def _has_agent(folder: Path, name: str) -> bool:
    return any(os.path.isfile(place) for place in agent_places(name, Workspace(folder)))


def _has_agents(folder: Path) -> bool:
    return any(os.path.isdir(place.parent) for place in agent_places("any", Workspace(folder)))


def _typed(folder: Path) -> str:
    """A folder as it can be typed into a shell."""
    return quote(os.path.relpath(folder))


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
