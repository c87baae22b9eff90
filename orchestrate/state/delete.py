"""Delete a folder tree of any depth, never following a link out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from orchestrate.state.durable import sync_folder

# How the folder of a run is named that is being deleted.
DEAD = ".old-"


def bury(folder: Path, name: str) -> None:
    """Delete a run's folder: for others from one moment to the next. What a kill leaves of it,
    `clean` finishes."""
    os.rename(folder / name, folder / f"{DEAD}{name}")
    sync_folder(folder)
    delete_tree(folder, f"{DEAD}{name}")


def delete_tree(folder: Path, name: str) -> None:
    """Delete a folder and all that is below it, never what a link in it leads to.

    Folders inside are moved up beside the first level and emptied in turn, so that neither the
    depth nor the number of open files is bounded by what an agent has made.
    """
    top = os.open(folder / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        moved = 0
        while inner := _names_in(top):
            for entry in inner:
                if not _unlink_unless_folder(entry, top):
                    moved = _empty(entry, top, moved)
    finally:
        os.close(top)
    os.rmdir(folder / name)


def _empty(name: str, top: int, moved: int) -> int:
    """Delete the folder `name` in `top`, moving the folders in it up to `top`."""
    descriptor = _open_folder(name, top)
    try:
        for entry in _names_in(descriptor):
            if not _unlink_unless_folder(entry, descriptor):
                # A folder must be writable to be moved, since its `..` changes.
                os.close(_open_folder(entry, descriptor))
                moved += 1
                fresh = f".moved-{os.urandom(4).hex()}-{moved}"
                os.rename(entry, fresh, src_dir_fd=descriptor, dst_dir_fd=top)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=top)
    return moved


def _names_in(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries]


def _unlink_unless_folder(name: str, parent: int) -> bool:
    if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.unlink(name, dir_fd=parent)
    return True


def _open_folder(name: str, parent: int) -> int:
    """Open a folder that is ours to delete, though its permissions were taken away."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if mode & 0o700 != 0o700:
        if hasattr(os, "O_PATH"):
            place = os.open(name, flags | os.O_PATH, dir_fd=parent)
            try:
                os.chmod(f"/proc/self/fd/{place}", 0o700)
            finally:
                os.close(place)
        else:
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
    return os.open(name, flags | os.O_RDONLY, dir_fd=parent)
