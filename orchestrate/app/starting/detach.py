"""A run in a process of its own, and the process that started it, until it knows of the run.

The process is a fork, so that it has all that the command line said. Until its run has started it
speaks where the command speaks: a definition that does not compile is told there, and the command
ends with the same exit code. From then on it writes to `logs/detached.log` of the run.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.errors import StateError
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.state.runs import Run

LOG = "detached.log"


@record
class Starter:
    """In the new process: the one that started it, which learns of the run."""

    line: int
    # Writes out what the process has said so far.
    flush: Callable[[], None]

    def started(self, run: Run) -> None:
        """The run is on record: leave the command's streams, and let it end."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        log = os.open(run.logs / LOG, flags, 0o600)
        self.flush()
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        with suppress(OSError):  # the waiting process may have been killed
            os.write(self.line, os.fsencode(run.root))
        os.close(self.line)


@record
class DetachedRun:
    """In the command: the process that left, and its run's folder, '' if it ended without one."""

    process: int
    root: str
    is_interrupted: bool

    def exit_code(self) -> int:
        """Wait for the process to end; it has said why it could not start a run."""
        _, status = os.waitpid(self.process, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            raise StateError(
                f"the process of the run was ended by signal {-code} before the run had started",
                "start it again",
            )
        return code


def detach(flush: Callable[[], None]) -> Starter | DetachedRun:
    """Fork: in the new process its starter; in the command, once it knows, what became of it."""
    flush()
    heard, said = os.pipe()
    # A Ctrl-C in between would end the command and leave an unknown run behind.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    process = os.fork()
    if process == 0:
        os.close(heard)
        # No terminal: its closing, and Ctrl-C in it, are none of our business any more.
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        return Starter(said, flush)
    os.close(said)
    child = _hear(heard, process)
    os.close(heard)
    return child


def _hear(line: int, process: int) -> DetachedRun:
    told = b""
    is_interrupted = False
    while True:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            part = os.read(line, 65536)
        except KeyboardInterrupt:
            # It does not hear our terminal any more, so it is told; once, for it is sure to end.
            if not is_interrupted:
                os.kill(process, signal.SIGINT)
            is_interrupted = True
            continue
        if not part:
            return DetachedRun(process, os.fsdecode(told), is_interrupted)
        told += part
