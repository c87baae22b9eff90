"""`diff` and `rewind` killed in front of their system calls: `.git` and what is ignored are as they
were, and the same command does its work afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints.places import inside_git, photograph, write
from tests.checkpoints.test_runs import SHAPES, Worked, without_runs
from tests.promises.killing import Point, can_trace, kill_at, points_in

pytestmark = pytest.mark.faults

# What changes files, or starts a program that does.
_DEEDS = (
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link",
    "linkat", "symlink", "symlinkat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate",
    "fchmod", "fallocate", "vfork", "clone", "clone3", "fork",
)  # fmt: skip
COMMANDS = {
    "diff": ("diff", "latest", "b"),
    "rewind": ("rewind", "latest", "b", "--yes"),
    "undo": ("rewind", "latest", "--undo", "--yes"),
}


class Killed(Worked):
    """A finished run, as often as it is wanted at the same place."""

    def __init__(self, top: Path, name: str) -> None:
        (top / "here").mkdir()
        super().__init__(top / "here")
        self.name, self.given = name, COMMANDS[name]
        self.play(SHAPES["recipe"])
        self.ran()
        write(self.folder, "by-a-person", "mine")
        write(self.folder, "fail-never", "ignored")
        write(self.folder, "common", "spoilt since\n")
        self.spoilt = without_runs(photograph(self.folder))
        if name == "undo":
            self.run(*COMMANDS["rewind"]).assert_exit(0)
        self.before = without_runs(photograph(self.folder))
        self._kept = top / "kept"
        # The keeper has ended, and its socket cannot be copied.
        shutil.copytree(
            self.top, self._kept, symlinks=True, ignore=shutil.ignore_patterns("socket")
        )

    def put_back(self) -> None:
        shutil.rmtree(self.top)
        shutil.copytree(self._kept, self.top, symlinks=True)

    def traced(self, *options: str) -> int:
        command = ["strace", "-qq", *options, sys.executable, "-m", "orchestrate", *self.given]
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **self.surroundings},
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        return done.returncode

    def points(self, log: Path) -> list[Point]:
        known = ",".join(f"?{name}" for name in _DEEDS)
        assert self.traced("-o", str(log), "-e", f"trace={known}") == 0, log.read_text()
        return points_in(log)

    def works_afterwards(self) -> None:
        """Whatever the kill has left, the same command does what it is to do."""
        again = self.run(*self.given)
        found = without_runs(photograph(self.folder))
        match self.name:
            case "diff":
                assert again.exit_code == 0
                assert found == self.before
            case "rewind":
                assert again.exit_code == 0
                assert (self.folder / "common").read_text() == "a\n"
                assert self.files() == {"by-a", "by-a-person"}
            case _:
                # Killed when it was on record already, there is nothing left to undo.
                assert again.exit_code == 0 or "there is nothing to undo" in again.stderr
                assert found == self.spoilt
        assert (self.folder / "fail-never").read_text() == "ignored"


def _sweep(tmp_path: Path, name: str, *, most: int) -> None:
    stage = Killed(tmp_path, name)
    points = stage.points(tmp_path / "log")
    assert len(points) > 2
    for point in points[:: max(1, len(points) // most)]:
        stage.put_back()
        theirs = inside_git(stage.folder)
        stage.traced(*kill_at(point))
        assert inside_git(stage.folder) == theirs, point
        stage.works_afterwards()
        assert inside_git(stage.folder) == theirs, point


@pytest.mark.skipif(not can_trace(), reason="kills are given by strace")
def test_killed_in_the_middle_of_a_rewind(tmp_path: Path) -> None:
    _sweep(tmp_path, "rewind", most=2)


@pytest.mark.skipif(not can_trace(), reason="kills are given by strace")
@pytest.mark.soak
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_deed(tmp_path: Path, name: str) -> None:
    _sweep(tmp_path, name, most=sys.maxsize)
