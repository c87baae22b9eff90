"""`orchestrate` in a process of its own, which a test starts without waiting for its imports."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

# `make soak` and `make coverage` say so: then each command has an interpreter of its own.
SPAWNS = not hasattr(os, "pidfd_open") or bool(os.environ.get("ORCHESTRATE_TESTS_SPAWN"))
# Values of modules that commands find changed, by `module:NAME`; the fixture `quicker` sets them.
CHANGED: dict[str, float] = {}
_LAUNCHER = Path(__file__).with_name("launcher.py")
# The terminal becomes the command's own, so that Ctrl-C in it is a signal.
_AT_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.cli.main import main
main()
"""
_Stream = int | IO[Any] | None


@dataclass(frozen=True)
class Disturbance:
    """What is done to a command; it waits until the other end of the `gate` is closed."""

    gate: int
    # Killed in front of the change of this number, which are counted in a file; 0 lets them alone.
    die_before: int
    counter: int
    # A file that says by how many seconds the wall clock is wrong for this command.
    clock: str = ""
    # A process that has the mounts which the command is to see; 0 for those of all others.
    mounts_of: int = 0
    # No file may grow beyond this, as by `ulimit -f`; 0 for no limit.
    file_limit: int = 0


class Command(subprocess.Popen[str]):
    """One command: to be asked and told what any `subprocess.Popen` is.

    `at_terminal` says that its standard input is a terminal, which becomes its controlling one.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: _Stream = subprocess.DEVNULL,
        stdout: _Stream = subprocess.PIPE,
        stderr: _Stream = subprocess.PIPE,
        is_leader: bool = False,
        at_terminal: bool = False,
        ignored: Iterable[signal.Signals] = (),
        disturbance: Disturbance | None = None,
    ) -> None:
        self._spawns = SPAWNS and disturbance is None
        self._disturbance = disturbance
        self._arguments = arguments
        self._at_terminal = at_terminal
        self._ignored = list(ignored)
        # Where the launcher says how it goes with a command.
        self._status = -1
        how = ["-c", _AT_TERMINAL] if at_terminal else ["-m", "orchestrate"]
        before = {number: signal.signal(number, signal.SIG_IGN) for number in self._ignored}
        try:
            super().__init__(
                [sys.executable, *how, *arguments],
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                encoding="utf-8",
                start_new_session=is_leader or at_terminal,
            )
        finally:
            for number, reaction in before.items():
                signal.signal(number, reaction)

    def wait(self, timeout: float | None = None) -> int:
        """As ever, but at once: `Popen` looks every 50 ms."""
        if not self._spawns and self.returncode is None:
            is_over = select.select([self._status], [], [], timeout)[0]
            if not is_over and timeout is not None:
                raise subprocess.TimeoutExpired(self.args, timeout)
        return super().wait(timeout)

    def __exit__(self, kind: type[BaseException] | None, *more: Any) -> None:
        """A test that has failed waits for no command, which may be waiting for the test."""
        if kind is not None:
            self.kill()
        super().__exit__(kind, *more)

    # What `Popen` would do by fork, exec and waitpid.

    def _execute_child(self, *given: Any) -> None:
        if self._spawns:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        cwd, env = given[5:7]
        read_in, write_in, read_out, write_out, read_err, write_err = given[10:16]
        standard = [
            number if descriptor == -1 else descriptor
            for number, descriptor in enumerate((read_in, write_out, write_err))
        ]
        self._status, theirs = os.pipe()
        try:
            _order(self._to_json(cwd, env, is_leader=given[21]), [*standard, theirs, *self._more()])
        finally:
            os.close(theirs)
            self._close_pipe_fds(  # type: ignore[attr-defined]
                read_in, write_in, read_out, write_out, read_err, write_err
            )
        self.pid = self._hear()
        self._child_created = True

    def _to_json(
        self, cwd: Path, env: Mapping[str, str] | None, *, is_leader: bool
    ) -> dict[str, Any]:
        mask = os.umask(0o077)
        os.umask(mask)
        return {
            "argv": ["orchestrate", *self._arguments],
            "cwd": str(cwd),
            "env": dict(os.environ if env is None else env),
            "umask": mask,
            "is_leader": is_leader,
            "at_terminal": self._at_terminal,
            "ignored": self._ignored,
            "changed": CHANGED,
            **({} if self._disturbance is None else asdict(self._disturbance)),
        }

    def _more(self) -> list[int]:
        return [self._disturbance.gate, self._disturbance.counter] if self._disturbance else []

    def _hear(self) -> int:
        """A line of the launcher's: first the process id, later the status."""
        line = b""
        while not line.endswith(b"\n"):
            heard = os.read(self._status, 1)
            assert heard, "the launcher has ended"
            line += heard
        return int(line)

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if self._spawns:
            waited: tuple[int, int] = super()._try_wait(flags)  # type: ignore[misc]
            return waited
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = self._hear()
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._spawns:
            polled: int | None = super()._internal_poll(*given, **named)  # type: ignore[misc]
            return polled
        lock = self._waitpid_lock  # type: ignore[attr-defined]
        # Whoever has it waits already.
        if lock.acquire(blocking=False):
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            finally:
                lock.release()
        return self.returncode


def _order(order: Mapping[str, Any], descriptors: list[int]) -> None:
    """In a file of its own: an environment may be larger than a message."""
    file = os.memfd_create("order")
    try:
        os.write(file, json.dumps(order).encode())
        os.lseek(file, 0, os.SEEK_SET)
        socket.send_fds(_launcher(), [b"!"], [file, *descriptors])
    finally:
        os.close(file)


@functools.cache
def _launcher() -> socket.socket:
    """Ours, from the first command on."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # By its path and with -P: nothing of the tests' folder can be taken for a module.
        process = subprocess.Popen(
            [sys.executable, "-P", str(_LAUNCHER), str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
