"""The commit of a repository, read without git; git itself says what is right."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.git_head import head_of


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.email=somebody@example.org", "-c", "user.name=Somebody")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")
    return root


def test_a_branch_a_folder_below_and_a_bare_commit(repository: Path) -> None:
    below = repository / "a" / "b"
    below.mkdir(parents=True)
    assert head_of(repository) == head_of(below) == git(repository, "rev-parse", "HEAD") != ""
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    assert head_of(below) == git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", "HEAD~1")
    assert head_of(below) == git(repository, "rev-parse", "HEAD")


def test_packed_references_and_a_worktree(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    assert head_of(repository) == git(repository, "rev-parse", "HEAD")
    other = repository.parent / "other"
    git(repository, "worktree", "add", "-q", "-b", "side", str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "aside")
    assert head_of(other) == git(other, "rev-parse", "HEAD") != head_of(repository)
    git(repository, "pack-refs", "--all")
    assert head_of(other) == git(other, "rev-parse", "HEAD")


def test_what_is_unusual_is_unknown(tmp_path: Path) -> None:
    assert head_of(tmp_path / "nowhere") in ("", head_of(Path("/")))
    folder = tmp_path / "odd"
    (folder / ".git").mkdir(parents=True)
    assert head_of(folder) == ""
    for text in ("", "nonsense", "ref: refs/../../secret", "ref: refs/heads/none", "x" * 5000):
        (folder / ".git" / "HEAD").write_text(text)
        assert head_of(folder) == "", text[:20]
    (folder / ".git" / "HEAD").unlink()
    os.mkfifo(folder / ".git" / "HEAD")
    assert head_of(folder) == "", "and it does not hang"
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text("no link at all")
    assert head_of(linked) == ""
