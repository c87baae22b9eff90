"""Where recipes are found by id: the workspace first, then the built-in catalogue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from orchestrate.record import record
from orchestrate.workspace import Workspace, package_data

SUFFIXES = (".yaml", ".yml", ".json")
Origin = Literal["workspace", "catalogue"]


@record
class Shelf:
    """A folder of recipes."""

    folder: Path
    origin: Origin


def shelves(workspace: Workspace) -> tuple[Shelf, ...]:
    """The folders an id is looked up in, in this order (rulings §5)."""
    built_in = package_data() / "workflows"
    own = (workspace.root / "workflows", workspace.root / ".orchestrate" / "recipes")
    # In our own checkout the workspace's folder is the catalogue: list it once.
    return (
        *(Shelf(folder, "workspace") for folder in own if folder != built_in),
        Shelf(built_in, "catalogue"),
    )


def find_recipe(recipe_id: str, workspace: Workspace) -> Path | None:
    """The file of a recipe id such as `rebase` or `examples/hello`."""
    parts = recipe_id.split("/")
    if not recipe_id or any(part in ("", ".", "..") for part in parts) or "\0" in recipe_id:
        return None
    for shelf in shelves(workspace):
        for suffix in SUFFIXES:
            path = shelf.folder.joinpath(*parts[:-1], parts[-1] + suffix)
            if os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
                return path
    return None


def recipe_files(workspace: Workspace) -> Iterator[tuple[str, Path, Origin]]:
    """Every file that may be a recipe: id, path, origin. A nearer shelf hides a further one."""
    seen: set[str] = set()
    for shelf in shelves(workspace):
        for path in sorted(_files_below(shelf.folder)):
            recipe_id = path.relative_to(shelf.folder).with_suffix("").as_posix()
            if recipe_id not in seen:
                seen.add(recipe_id)
                yield recipe_id, path, shelf.origin


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(SUFFIXES):
                yield Path(parent) / name


# What `init --agents-of` writes where an author has to say more.
AGENT_STUB = "Say what this agent is for, and how it works."


def agent_places(name: str, workspace: Workspace) -> tuple[Path, ...]:
    """Where an agent definition may lie: `ns:name` is in a folder `ns` (rulings §8)."""
    name = workspace.agent_called(name)
    relative = Path(*name.split(":")).with_suffix(".md") if name else Path("?")
    relative = relative.parent / f"{name.rsplit(':', 1)[-1]}.md"
    return (
        workspace.root / ".orchestrate" / "agents" / relative,
        workspace.root / ".claude" / "agents" / relative,
    )
