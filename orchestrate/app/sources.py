"""The files of a definition: names that hold on any machine and installation, and checksums."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.workspace import package_data

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.workspace import Workspace

# Files that came with orchestrate are known by these, wherever it is installed.
CATALOGUE = "catalogue:"
PACKAGE = "package:"


def checksums(compilation: Compilation, workspace: Workspace) -> dict[str, str]:
    """The checksum of each file that went into the program, by its path from the workspace."""
    import hashlib

    found = {}
    for source in compilation.sources.files:
        digest = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).hexdigest()
        found[stable_path(source.path, workspace)] = f"sha256:{digest}"
    return found


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


def file_at(stable: str, workspace: Workspace) -> Path:
    """The file that a stable path names here and now."""
    for prefix, folder in ((CATALOGUE, "workflows"), (PACKAGE, "")):
        if stable.startswith(prefix):
            return package_data() / folder / stable.removeprefix(prefix)
    return workspace.root / stable


def combined_checksum(sources: Mapping[str, str]) -> str:
    import hashlib

    lines = "".join(f"{path} {digest}\n" for path, digest in sorted(sources.items()))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
