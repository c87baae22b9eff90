"""The checksums of the files of a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.digest import sha256_of
from orchestrate.view.source_files import stable_path

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.workspace import Workspace


def checksums(compilation: Compilation, workspace: Workspace) -> dict[str, str]:
    """The checksum of each file that went into the program, by its path from the workspace."""
    found = {}
    for source in compilation.sources.files:
        digest = sha256_of(source.text.encode("utf-8", "surrogatepass"))
        found[stable_path(source.path, workspace)] = f"sha256:{digest}"
    return found
