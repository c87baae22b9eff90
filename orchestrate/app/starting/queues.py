"""`--clean-processed` and `--archive-processed`: the folder of finished tasks (C)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from orchestrate.app.user_files import write_named
from orchestrate.errors import ConfigError, UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.settings import Folders
from orchestrate.state.delete import delete_tree

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Program
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace


def _processed(program: Program, workspace: Workspace, runs: Path) -> Path:
    """The folder, which must really lie inside the workspace, and not be all of it.

    Nor may it be, hold or lie in what orchestrate and git keep there.
    """
    name = (main_plan(program).folders or Folders()).processed
    folder = Path(os.path.realpath(workspace.root / name))
    if folder == workspace.root or not folder.is_relative_to(workspace.root):
        raise UsageError(
            f"processed_dir '{name}' is not a folder inside the workspace",
            "set processed_dir to one that is",
        )
    if workspace.keeps(str(folder)) or _meet(folder, Path(os.path.realpath(runs))):
        raise UsageError(
            f"processed_dir '{name}' leads to a folder of orchestrate or git",
            "set processed_dir to a folder of your own",
        )
    return folder


def _meet(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def clean_processed(program: Program, workspace: Workspace, runs: Path) -> None:
    """Empty the folder; links in it are removed, not followed."""
    folder = _processed(program, workspace, runs)
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if is_folder:
                delete_tree(folder, name)
            else:
                os.unlink(folder / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"cannot empty {folder}: {error.strerror}") from error


def check_archive(
    program: Program, workspace: Workspace, runs: Path, destination: str | None
) -> None:
    """Refuse a destination inside the folder, or in our own or git's, before anything has run."""
    if destination is None:
        return
    folder = _processed(program, workspace, runs)
    if destination:
        path = Path(os.path.realpath(workspace.root / destination))
        if path.is_relative_to(folder):
            raise UsageError(
                f"--archive-processed: '{destination}' lies in the folder that is archived",
                "name a place outside processed_dir",
            )
        if workspace.keeps(str(path)) or path.is_relative_to(os.path.realpath(runs)):
            raise UsageError(
                f"--archive-processed: '{destination}' lies in a folder of orchestrate or git",
                "name a place of your own",
            )
        if path.is_dir():
            raise UsageError(f"--archive-processed: '{destination}' is a folder")


def archive_processed(
    program: Program, workspace: Workspace, run: Run, destination: str | None
) -> None:
    """Zip the folder; no half archive is ever seen."""
    if destination is None:
        return
    folder = _processed(program, workspace, run.root.parent)
    target = workspace.root / destination if destination else run.root / "processed.zip"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot write the archive {target}: {error.strerror}") from error
    # By the run and not by the process: what a kill has left is written over by the resume.
    write_named(str(target), run.id, lambda file: _zip(folder, file), "the archive ")


def _zip(folder: Path, file: BinaryIO) -> None:
    import zipfile

    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path in _files_below(folder):
            archive.write(path, path.relative_to(folder).as_posix())


def _files_below(folder: Path) -> list[Path]:
    """Regular files in a steady order; links are left out, for they may lead anywhere."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        paths = [Path(place) / name for name in sorted(names)]
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return found
