"""Where authored paths lead: the workspace, the built-in catalogue, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.record import record


@record
class Workspace:
    """The folder a run works in (`--working-dir`); `root` is its real path."""

    root: Path

    def display(self, path: Path) -> str:
        """The path as messages show it: relative to where the user stands, if it is below."""
        try:
            return path.relative_to(Path.cwd()).as_posix()
        except ValueError:
            return path.as_posix()

    def contains(self, path: Path) -> bool:
        """Does the path, with all links followed, lie in the workspace?"""
        return is_within(path, self.root)

    def allows(self, path: Path, named_in: Path) -> bool:
        """May a file name this one? If it is in the workspace; the catalogue's may name its own."""
        data = package_data()
        return self.contains(path) or (is_within(named_in, data) and is_within(path, data))


def open_workspace(folder: str | os.PathLike[str] | None = None) -> Workspace:
    return Workspace(Path(os.path.realpath(folder if folder is not None else os.getcwd())))


def is_within(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)


def package_data() -> Path:
    """The folder that holds `schemas`, `workflows`, `prompts` and `skills`.

    They travel inside the wheel as `orchestrate/data`; in a checkout they are at the top level.
    """
    here = Path(os.path.realpath(__file__)).parent
    inside = here / "data"
    return inside if inside.is_dir() else here.parent


def path_fault(text: str) -> str:
    """Why a path text can never be a path inside the workspace, or ''."""
    if "\0" in text:
        return "contains a NUL character"
    if text.startswith(("/", "~")):
        return "is absolute"
    if len(text) > 1 and text[1] == ":" and text[0].isalpha() and text[2:3] in ("\\", "/"):
        return "is absolute"
    if ".." in text.replace("\\", "/").split("/"):
        return "contains '..'"
    return ""
