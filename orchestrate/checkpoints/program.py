"""Starts git, with the settings that it is given and no others.

No variable of the user's (`GIT_DIR`, `GIT_INDEX_FILE` ...), no configuration of theirs, no hook, no
monitor, no prompt reaches it; it works in a session of its own, so that Ctrl-C is ours to handle.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrate.checkpoints.model import CheckpointError
from orchestrate.git_head import common_folder
from orchestrate.record import record

# No checkpoint takes longer.
LONGEST_S = 30.0
_QUIET = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
)  # fmt: skip


def find_git(environment: Mapping[str, str]) -> str | None:
    """The git program, if there is one."""
    return shutil.which("git", path=environment.get("PATH", os.defpath))


@record
class Deadline:
    """The moment at which whatever is done must be done."""

    at: float

    @property
    def left_s(self) -> float:
        return self.at - time.monotonic()


def deadline_in(seconds: float = LONGEST_S) -> Deadline:
    return Deadline(time.monotonic() + seconds)


@record
class Git:
    """A git program with the variables that it is started with."""

    program: str
    variables: dict[str, str]

    def output(
        self, *arguments: str, given: bytes = b"", until: Deadline | None = None, ok: int = 0
    ) -> bytes:
        """What git prints; any exit code but 0 and `ok` is an error."""
        return self.outcome(*arguments, given=given, until=until, ok=ok).stdout

    def outcome(
        self, *arguments: str, given: bytes = b"", until: Deadline | None = None, ok: int = 0
    ) -> subprocess.CompletedProcess[bytes]:
        """The same with what git says beside it."""
        limit = deadline_in() if until is None else until
        command = (self.program, *_QUIET, *arguments)
        try:
            done = subprocess.run(
                command,
                input=given,
                capture_output=True,
                env=self.variables,
                cwd=self.variables.get("GIT_WORK_TREE") or self.variables["GIT_DIR"],
                timeout=max(limit.left_s, 0.01),
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CheckpointError(
                f"git {_word(arguments)} did not finish within {LONGEST_S:g} s",
                "turn checkpoints off with --checkpoints off",
            ) from None
        except OSError as error:
            raise CheckpointError(f"git cannot be started: {error.strerror}") from error
        if done.returncode not in (0, ok):
            raise CheckpointError(f"git {_word(arguments)} failed: {_last_line(done.stderr)}")
        return done

    def answers(self, *arguments: str, until: Deadline | None = None) -> bool:
        """Does git say yes (0) to a question to which it can say no (1)?"""
        try:
            self.output(*arguments, until=until)
        except CheckpointError:
            return False
        return True

    def begin(self, *arguments: str, given: bytes) -> subprocess.Popen[bytes]:
        """Start git beside our own work, at the lowest priority."""
        process = subprocess.Popen(
            ("nice", "-n", "19", self.program, *_QUIET, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self.variables,
            cwd=self.variables["GIT_DIR"],
            start_new_session=True,
        )
        if process.stdin is not None:
            process.stdin.write(given)
            process.stdin.close()
        return process

    def converse(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start git in order to ask it one thing after another."""
        return subprocess.Popen(
            (self.program, *_QUIET, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.variables,
            cwd=self.variables["GIT_DIR"],
            start_new_session=True,
        )

    def with_variables(self, **changes: str) -> Git:
        return Git(self.program, self.variables | changes)

    def without(self, variable: str) -> Git:
        kept = {name: value for name, value in self.variables.items() if name != variable}
        return Git(self.program, kept)


def own_git(program: str, store: Path, work_tree: Path | None = None) -> Git:
    """Git for our own store: of the user's it has the files of the work tree, nothing else."""
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(store),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_DIR": str(store),
        "GIT_INDEX_FILE": str(store / "index"),
    }
    if work_tree is not None:
        variables["GIT_WORK_TREE"] = str(work_tree)
    return Git(program, variables)


def users_git(
    program: str, environment: Mapping[str, str], git: Path, top: Path, aside: Path | None = None
) -> Git:
    """Git for reading the user's repository with their settings; it takes no optional lock.

    Git makes objects even where it only reads (trees, to look into a sparse index): `aside` is
    where they go, if not among the user's.
    """
    kept = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    kept |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    if aside is not None:
        theirs = quoted(str(common_folder(git) / "objects"))
        kept |= {"GIT_OBJECT_DIRECTORY": str(aside), "GIT_ALTERNATE_OBJECT_DIRECTORIES": theirs}
    return Git(program, kept | {"GIT_DIR": str(git), "GIT_WORK_TREE": str(top)})


def quoted(path: str) -> str:
    """As git reads one path among several: a colon or a quote in it does not end it."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def split(output: bytes) -> Sequence[bytes]:
    """The parts of an output in which NUL ends each of them."""
    return output.split(b"\0")[:-1]


def _word(arguments: Sequence[str]) -> str:
    """What git was asked for, behind the settings that it was given."""
    words = iter(arguments)
    return next((word for word in words if word != "-c" or not next(words)), "")


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
