"""A workspace with something outside it, and values to look up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.workspace import Workspace, open_workspace

Write = Callable[..., Path]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return open_workspace(folder)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace whose name begins with the workspace's."""
    folder = tmp_path / "workspace-secret"
    folder.mkdir()
    (folder / "secret.txt").write_text("do-not-show-this", "utf-8")
    return folder


@pytest.fixture
def write(workspace: Workspace) -> Write:
    """Make a file of the workspace, with its folders."""

    def make(name: str, content: str | bytes = "") -> Path:
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return make
