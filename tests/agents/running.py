"""A `run` for tests: starts the program for real, as the keeper would, and keeps what it did."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from orchestrate.agents.base import Finished, Invocation

SESSION = "7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11"
_GRACE_S = 3.0


@dataclass
class Stage:
    """A workspace, a place for output, and how long a program may take."""

    folder: Path
    timeout_s: float = 60.0
    # Ends the program as a user would, or as its time limit would, as soon as this is true.
    stop_when: Callable[[], bool] | None = None
    expire_when: Callable[[], bool] | None = None
    # Called while the program runs, with what it has printed so far.
    watch: Callable[[bytes], None] | None = None
    calls: list[Invocation] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        path = self.folder / "workspace"
        path.mkdir(exist_ok=True)
        return path

    def run(self, invocation: Invocation) -> Finished:
        self.calls.append(invocation)
        number = len(self.calls)
        stdout, stderr = self.folder / f"{number}.stdout", self.folder / f"{number}.stderr"
        with (
            as_input(invocation.stdin) as source,
            stdout.open("wb") as out,
            stderr.open("wb") as err,
        ):
            try:
                program = subprocess.Popen(
                    invocation.argv,
                    stdin=source,
                    stdout=out,
                    stderr=err,
                    cwd=self.workspace,
                    env=dict(invocation.environment),
                    start_new_session=True,
                )
            except OSError as error:
                return Finished(127, None, stdout, stderr, start_error=str(error))
            why = self._await(program, stdout)
        code = program.returncode
        return Finished(
            code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            stdout=stdout,
            stderr=stderr,
            timed_out=why == "timeout",
            stopped="the user said so" if why == "stopped" else "",
        )

    def _await(self, program: subprocess.Popen[bytes], stdout: Path) -> str:
        """Wait for the end; end it if it takes too long or is no longer wanted, and say which."""
        give_up = time.monotonic() + self.timeout_s
        try:
            while program.poll() is None:
                if self.watch is not None:
                    self.watch(stdout.read_bytes())
                if self.stop_when is not None and self.stop_when():
                    return "stopped"
                is_expired = self.expire_when is not None and self.expire_when()
                if is_expired or time.monotonic() > give_up:
                    return "timeout"
                time.sleep(0.01)
            return ""
        finally:
            end_group(program)


def as_input(data: bytes) -> IO[bytes]:
    """Standard input as the keeper gives it: a nameless file. Some programs tell it from a pipe."""
    file = TemporaryFile()  # noqa: SIM115 - whoever starts the program closes it
    file.write(data)
    file.seek(0)
    return file


def end_group(program: subprocess.Popen[bytes]) -> None:
    """Ask the whole group to end, then make it."""
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 30.0)):
        try:
            os.killpg(program.pid, number)
        except ProcessLookupError:
            break
        try:
            program.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM and not _group_exists(program.pid):
            break
    program.wait(60.0)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
