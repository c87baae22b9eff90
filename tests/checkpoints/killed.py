"""A workspace that is put back as it was, for commands that are killed in front of their deeds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.checkpoints.test_runs import Worked
from tests.promises.killing import Point, kill_at, points_in

# What changes files, or starts a program that does.
_DEEDS = (
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "link",
    "linkat", "symlink", "symlinkat", "write", "pwrite64", "fsync", "fdatasync", "ftruncate",
    "fchmod", "fallocate", "vfork", "clone", "clone3", "fork",
)  # fmt: skip


class Killed(Worked):
    """A finished run, as often as it is wanted at the same place."""

    def __init__(self, top: Path, text: str, *given: str) -> None:
        (top / "here").mkdir()
        super().__init__(top / "here")
        self.given = given
        self._kept = top / "kept"
        self.play(text)
        self.ran()

    def keep(self) -> None:
        """Let the command be killed in the workspace as it is now."""
        # The keeper has ended, and its socket cannot be copied.
        shutil.copytree(
            self.top, self._kept, symlinks=True, ignore=shutil.ignore_patterns("socket")
        )

    def put_back(self) -> None:
        shutil.rmtree(self.top)
        shutil.copytree(self._kept, self.top, symlinks=True)

    def killed(self, most: int) -> Iterator[Point]:
        """The points at which the command was killed, one after another."""
        log = self._kept.with_name("log")
        known = ",".join(f"?{name}" for name in _DEEDS)
        assert self._traced("-o", str(log), "-e", f"trace={known}") == 0, log.read_text()
        points = points_in(log)
        assert len(points) > 2
        for point in points[:: max(1, len(points) // most)]:
            self.put_back()
            self._traced(*kill_at(point))
            yield point

    def _traced(self, *options: str) -> int:
        command = ["strace", "-qq", *options, sys.executable, "-m", "orchestrate", *self.given]
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **self.surroundings},
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        return done.returncode
