"""Where authored paths lead: the workspace, the built-in catalogue, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from orchestrate.record import record


@record
class Workspace:
    """The folder a run works in (`--working-dir`); `root` is its real path.

    `run` is the folder of the run that works in it, wherever that lies: no step may write there.
    `aliases` are names of agents in recipes from elsewhere, each with ours.
    """

    root: Path
    run: Path | None = None
    aliases: tuple[tuple[str, str], ...] = ()

    def agent_called(self, name: str) -> str:
        """Our name of an agent."""
        return dict(self.aliases).get(name, name)

    def display(self, path: Path) -> str:
        """The path as messages show it: relative to where the user stands, if that can be read."""
        here = Path.cwd()
        try:
            return path.relative_to(here).as_posix()
        except ValueError:
            pass
        if here.is_relative_to(self.root) and path.is_relative_to(self.root):
            return Path(os.path.relpath(path, here)).as_posix()
        return path.as_posix()

    def contains(self, path: Path) -> bool:
        """Does the path, with all links followed, lie in the workspace?"""
        return is_within(path, self.root)

    def keeps(self, real: str) -> str:
        """Whose a real path is, if no step may write or move anything there; '' if one may.

        The run's own folder of artifacts is free. Names are compared as a file system does that
        knows no capitals: `.GIT` is `.git` there.
        """
        path = Path(real)
        if self.run is not None:
            runs = Path(os.path.realpath(self.run.parent))
            if path.is_relative_to(runs / self.run.name / "artifacts"):
                return ""
            if path.is_relative_to(runs) and path != runs:
                name = path.relative_to(runs).parts[0]
                if name == "latest" or os.path.lexists(runs / name / "run.lock"):
                    return "a run's own folder"
        inside = path.relative_to(self.root).parts if path.is_relative_to(self.root) else ()
        return kept_name(inside)

    def allows(self, path: Path, named_in: Path) -> bool:
        """May a file name this one? If it is in the workspace; the catalogue's may name its own."""
        data = package_data()
        return self.contains(path) or (is_within(named_in, data) and is_within(path, data))


def open_workspace(folder: str | os.PathLike[str] | None = None) -> Workspace:
    return Workspace(Path(os.path.realpath(folder if folder is not None else os.getcwd())))


def find_workspace() -> Workspace:
    """The nearest folder upwards with `.orchestrate/`, else the current one (rulings §1).

    The top of a git work tree is the last place looked at. The home folder and `/` count only for
    those who stand there, and so does a folder whose `.orchestrate/` is another user's: settings
    name programs to be started.
    """
    here = Path(os.path.realpath(os.getcwd()))
    kept_out = {Path("/"), Path(os.path.realpath(os.path.expanduser("~")))}
    for folder in (here, *here.parents):
        if folder != here and folder in kept_out:
            break
        if _is_marked(folder, is_here=folder == here):
            return Workspace(folder)
        # A folder in a repository's top, a file in that of a linked work tree or a submodule.
        if os.path.lexists(folder / ".git"):
            break
    return Workspace(here)


def _is_marked(folder: Path, *, is_here: bool) -> bool:
    mark = folder / ".orchestrate"
    try:
        return mark.is_dir() and (is_here or os.stat(mark).st_uid in (os.getuid(), 0))
    except OSError:
        return False


# What orchestrate and git keep for themselves in a workspace.
_KEPT = (".orchestrate", ".git")


def kept_name(parts: Iterable[str]) -> str:
    """The first name of a path that belongs to orchestrate or git, or ''."""
    return next((name for name in _KEPT if name in {part.casefold() for part in parts}), "")


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
