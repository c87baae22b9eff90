"""Workspaces in git repositories, and what is in them, byte for byte."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from orchestrate.testing import Result
from tests.edits.ledger import Ledger

_ME = {
    "GIT_AUTHOR_NAME": "me", "GIT_AUTHOR_EMAIL": "me@example.com", "GIT_COMMITTER_NAME": "me",
    "GIT_COMMITTER_EMAIL": "me@example.com", "GIT_CONFIG_NOSYSTEM": "1",
    # Submodules of these tests lie in folders.
    "GIT_ALLOW_PROTOCOL": "file",
}  # fmt: skip


class Repository(Ledger):
    """A workspace that is a git repository with one commit."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.git("init", "-q", "-b", "main")
        self.write("tracked", "one\n")
        self.write(".gitignore", "ignored\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    @property
    def surroundings(self) -> dict[str, str]:
        return super().surroundings | _ME

    def git(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder or self.folder), *words],
            env={**os.environ, **self.surroundings}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def worktrees(self) -> list[Path]:
        folder = self.top / "workspace.worktrees"
        return sorted(folder.iterdir()) if folder.exists() else []

    @property
    def worktree(self) -> Path:
        (found,) = self.worktrees
        return found

    def worktree_exists(self) -> bool:
        """Is there one, for the eye or for git?"""
        return bool(self.worktrees) or self.git("worktree", "list").count("\n") > 1

    def branches(self) -> list[str]:
        return self.git("branch", "--format=%(refname:short)").split()

    def advised(self, result: Result, word: str) -> None:
        """Do what the last words advise, as a shell does it."""
        line = next(line for line in result.stderr.splitlines() if line.strip().startswith(word))
        command = line.partition(f"{word}")[2].partition("   (")[0]
        environment = {**os.environ, **self.surroundings, "GIT_EDITOR": "true"}
        if word == "commit:":
            command += " -m done"
        subprocess.run(["sh", "-c", command], env=environment, check=True, capture_output=True)


def bytes_below(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Every file and link below a folder; names of folders in `without` are left out."""
    found = {}
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        for name in names:
            path = Path(where, name)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = os.readlink(path).encode()
            elif path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found
