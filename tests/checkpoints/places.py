"""Workspaces to be captured, and what must not change in them."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

_WHO = ("-c", "user.email=somebody@example.org", "-c", "user.name=Somebody")
# Local clones of submodules are allowed only to who asks for them.
_OPEN = ("-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *_WHO, *_OPEN, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(folder: Path, *flags: str, **files: str) -> Path:
    """A repository with these files committed; `__` in a name is a slash."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", *flags)
    for name, content in files.items():
        write(folder, name.replace("__", "/"), content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def photograph(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file and link below a folder: what it is, its mode, its bytes."""
    found: dict[str, tuple[str, bytes]] = {}
    for place, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = os.path.join(place, name)
            shown = os.path.relpath(path, folder)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[shown] = ("link", os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(mode):
                found[shown] = (oct(stat.S_IMODE(mode)), Path(path).read_bytes())
            elif not stat.S_ISDIR(mode):
                found[shown] = ("special", b"")
    return found


def inside_git(folder: Path) -> dict[str, tuple[str, bytes, int]]:
    """All that lies under `.git`, with the time of each file: a rewritten one is told apart."""
    return {
        name: (*what, os.lstat(folder / ".git" / name).st_mtime_ns)
        for name, what in photograph(folder / ".git").items()
    }
