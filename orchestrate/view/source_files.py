"""The files of a definition: names that hold on any machine and installation, and checksums."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from orchestrate.digest import sha256_of
from orchestrate.plan.visible import visible
from orchestrate.workspace import Workspace, package_data

# Files that came with orchestrate are known by these, wherever it is installed.
CATALOGUE = "catalogue:"
PACKAGE = "package:"


def stable_path(path: Path, workspace: Workspace) -> str:
    """A file's path that depends neither on where the user stands nor on where we are installed."""
    real = Path(os.path.realpath(path))
    if real.is_relative_to(workspace.root):
        return real.relative_to(workspace.root).as_posix()
    data = package_data()
    for prefix, folder in ((CATALOGUE, data / "workflows"), (PACKAGE, data)):
        if real.is_relative_to(folder):
            return prefix + real.relative_to(folder).as_posix()
    return real.as_posix()


def shown_definition(stable: str) -> str:
    """A definition's name for people: of the catalogue the id that `run` takes, else the path."""
    if not stable.startswith(CATALOGUE):
        return visible(stable)
    return visible(os.path.splitext(stable.removeprefix(CATALOGUE))[0])


def file_at(stable: str, workspace: Workspace) -> Path:
    """The file that a stable path names here and now."""
    for prefix, folder in ((CATALOGUE, "workflows"), (PACKAGE, "")):
        if stable.startswith(prefix):
            return package_data() / folder / stable.removeprefix(prefix)
    return workspace.root / stable


def combined_checksum(sources: Mapping[str, str]) -> str:
    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(sources.items()))
    return "sha256:" + sha256_of(lines.encode("utf-8", "surrogateescape"))


def own_files(sources: Mapping[str, str]) -> dict[str, str]:
    """Of a definition's files the user's own: what came with orchestrate changes with it."""
    return {p: digest for p, digest in sources.items() if not p.startswith((CATALOGUE, PACKAGE))}


def changed_files(sources: Mapping[str, str], workspace: Workspace) -> set[str]:
    """The user's files whose text is not what it was, or that are gone."""
    own = own_files(sources)
    return {path for path, digest in own.items() if digest != _digest(file_at(path, workspace))}


def _digest(path: Path) -> str:
    """The checksum of a file's text as the compiler counts it; '' if it cannot be read."""
    try:
        # O_NONBLOCK: opening a FIFO without a writer would otherwise wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            text = file.read().removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError):
        return ""
    return f"sha256:{sha256_of(text)}"
