"""The git program, for what only it can do: worktrees and branches. It is asked nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.errors import ConfigError

# What a hook of git, or a person, may have set for another repository.
_OF_OTHERS = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX",
)  # fmt: skip
# Looking changes no index, nothing is asked, and messages are those that we know.
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
# A user's hook may do anything; a worktree adds a branch and an entry, and nothing else.
_PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.fsmonitor=false")


class GitError(ConfigError):
    """Git was asked, and refused."""


def has_git() -> bool:
    import shutil

    return shutil.which("git") is not None


def git(folder: str | Path, *words: str) -> str:
    """What git says when it is asked in a folder; `GitError` with its own words if it refuses."""
    import subprocess  # which few runs need

    environment = {k: v for k, v in os.environ.items() if k not in _OF_OTHERS} | _QUIET
    try:
        done = subprocess.run(
            ["git", *_PLAIN, "-C", str(folder), *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise ConfigError("git is not installed", "put it on PATH") from None
    if done.returncode:
        raise GitError(
            f"git {words[0]}: {_why(os.fsdecode(done.stderr)) or f'exit code {done.returncode}'}",
            f"git was asked in {folder}",
        )
    return os.fsdecode(done.stdout)


def _why(said: str) -> str:
    """The reason among what git has said; advice may follow it."""
    lines = said.strip().splitlines() or [""]
    fatal = [line for line in lines if line.startswith("fatal: ")]
    return (fatal or lines)[-1].removeprefix("fatal: ").removeprefix("error: ")
