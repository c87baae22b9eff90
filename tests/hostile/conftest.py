"""A workspace under attack: the command runs in it, measured, and may leave no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import orchestrate
from orchestrate.testing import Project

MEASURED = Path(__file__).with_name("measured.py")
# Rulings §3. Processor time, because the machine may be busy with other tests.
MOST_SECONDS = 2.0
MOST_MEGABYTES = 256
# What the loop in `_slowness` takes on a machine with nothing else to do.
QUIET_LOOP_S = 0.06
# A finding is at most a few lines, and 1000 of them are shown.
MOST_OUTPUT = 1_500_000


def _slowness() -> float:
    """How much slower than a quiet machine this one is right now; at least 1.

    Two programs on one core's hardware threads take turns, and each is charged for the waiting.
    """
    begin = time.process_time()
    total = 0
    for number in range(1_000_000):
        total = total * 3 + number & 0xFFFF
    return max(1.0, (time.process_time() - begin) / QUIET_LOOP_S)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one call of the command ended, and what it cost."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    cpu_s: float
    # 0 where it was not measured, which takes a process.
    memory_mb: float

    @property
    def said(self) -> str:
        """What a person would see."""
        return self.stdout + self.stderr

    def assert_well_behaved(self) -> Ending:
        """No crash, no terminal tricks, no flood, and inside the limits that the rulings set."""
        told = f"{' '.join(self.command)}: {self.said[:600]}"
        assert self.exit_code in (0, 1, 2), f"exit code {self.exit_code}: {told}"
        assert "Traceback" not in self.said, told
        assert "orchestrate: unexpected" not in self.stderr, told
        raw = {c for c in self.said if c != "\n" and not c.isprintable()}
        assert not raw, f"control characters reach the terminal: {raw}"
        assert len(self.said) < MOST_OUTPUT
        if self.cpu_s >= MOST_SECONDS:
            allowed = MOST_SECONDS * _slowness()
            assert self.cpu_s < allowed, f"took {self.cpu_s:.1f} of {allowed:.1f} s: {told}"
        assert self.memory_mb < MOST_MEGABYTES, f"took {self.memory_mb:.0f} MB: {told}"
        return self

    def assert_refused(self, code: str, file: str, exit_code: int = 2) -> Ending:
        """A well-behaved refusal that names the file and carries the code."""
        self.assert_well_behaved()
        assert self.exit_code == exit_code, self.said[:600]
        found = [line for line in self.said.splitlines() if f"error {code}: " in line]
        assert found, f"no {code}: {self.said[:600]}"
        assert any(line.startswith(f"{file}:") for line in found), found[:5]
        return self


class Attack:
    """A throw-away workspace with a home beside it; both must stay as they were."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "workspace"
        self.outside = folder / "outside"
        self._home = folder / "home"
        self._notes = folder / "notes"
        for made in (self.folder, self.outside, self._home, self._notes):
            made.mkdir()

    def write(self, name: str, content: str | bytes) -> str:
        """A file in the workspace; gives its name back."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def run(self, *arguments: str) -> Ending:
        """Run the command in the workspace, and see that nothing there or at home changes."""
        before = self._snapshot()
        begin = time.process_time()
        home = {"HOME": str(self._home), "TMPDIR": str(self._home)}
        done = Project(self.folder).run(*arguments, env=home, timeout_s=240)
        cpu_s = time.process_time() - begin
        assert self._snapshot() == before, "the command wrote something"
        return Ending(arguments, done.exit_code, done.stdout, done.stderr, cpu_s, 0.0)

    def run_measured(self, *arguments: str) -> Ending:
        """The same in a process, whose memory can be told from that of the tests."""
        before = self._snapshot()
        stdout, stderr, report = (self._notes / n for n in ("stdout", "stderr", "report"))
        command = [sys.executable, "-m", "orchestrate", *arguments]
        with stdout.open("wb") as out, stderr.open("wb") as err:
            subprocess.run(
                [sys.executable, "-I", "-S", str(MEASURED), str(report), "240", *command],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=300,
                check=True,
            )
        assert self._snapshot() == before, "the command wrote something"
        cost = json.loads(report.read_text("utf-8"))
        return Ending(
            arguments,
            cost["exit_code"],
            stdout.read_text("utf-8"),
            stderr.read_text("utf-8"),
            cost["cpu_s"],
            cost["memory_mb"],
        )

    def _environment(self) -> dict[str, str]:
        """Little: a coverage run, for one, would otherwise trace (and slow down) the child."""
        return {
            "PATH": os.defpath,
            "HOME": str(self._home),
            "TMPDIR": str(self._home),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(Path(orchestrate.__file__).parent.parent),
        }

    def _snapshot(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for top in (self.folder, self.outside, self._home):
            for parent, folders, names in os.walk(top):
                for name in (*folders, *names, "."):
                    path = os.path.join(parent, name)
                    status = os.lstat(path)
                    found[path] = (
                        status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino,
                    )  # fmt: skip
        return found


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)
