"""`BEADS_DB` is set in a git worktree that has its own task database, and nowhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrate.agents.worktree import worktree_environment


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def with_database(folder: Path) -> Path:
    path = folder / ".beads-local" / "local.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def worktree(project: Path) -> Path:
    folder = project.parent / "project feature ä"
    git(project, "worktree", "add", "-q", "--detach", str(folder))
    return folder


def test_a_worktree_with_a_database(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert worktree_environment(worktree) == {}
    database = with_database(worktree)
    assert worktree_environment(worktree) == {"BEADS_DB": str(database)}


def test_a_folder_inside_the_worktree(worktree: Path) -> None:
    database = with_database(worktree)
    inside = worktree / "src" / "deep"
    inside.mkdir(parents=True)
    assert worktree_environment(inside) == {"BEADS_DB": str(database)}


def test_the_main_repository_is_no_worktree(project: Path) -> None:
    with_database(project)
    assert worktree_environment(project) == {}


def test_a_submodule_is_no_worktree(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    git(library, "commit", "-q", "--allow-empty", "-m", "first")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    with_database(project / "lib")
    assert (project / "lib" / ".git").is_file()
    assert worktree_environment(project / "lib") == {}


def test_no_repository_at_all(tmp_path: Path) -> None:
    with_database(tmp_path)
    assert worktree_environment(tmp_path) == {}


def test_a_database_that_is_a_folder_does_not_count(worktree: Path) -> None:
    (worktree / ".beads-local" / "local.db").mkdir(parents=True)
    assert worktree_environment(worktree) == {}
