"""`-d`: a run in a process of its own; the command ends when the run has really started.

The process is a fork, so that it has all that the command line said. Until its run has started it
speaks where the command speaks: a definition that does not compile is told there, and the command
ends with the same exit code. From then on it writes to `logs/detached.log` of the run.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.errors import StateError, UsageError
from orchestrate.record import record
from orchestrate.show.output import answer, answer_json, note

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.state.runs import Run
    from orchestrate.view.place import Place

LOG = "detached.log"


@record
class Departure:
    """In the new process: how its starter learns of the run."""

    line: int

    def started(self, run: Run) -> None:
        """The run is on record: leave the command's streams, and let it end."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        log = os.open(run.logs / LOG, flags, 0o600)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        with suppress(OSError):  # the waiting process may have been killed
            os.write(self.line, os.fsencode(run.root))
        os.close(self.line)


def detached(settings: RunSettings, place: Place, as_json: bool) -> Departure | int | None:
    """With `-d`, in the new process a departure, and in the command its exit code; else None."""
    if not settings.detach:
        return None
    if settings.live:
        raise UsageError("--detach and --live exclude each other")
    return part_ways(place, as_json)


def part_ways(place: Place, as_json: bool) -> Departure | int:
    """In the new process a departure; in the command, once it knows, its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
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
        return Departure(said)
    os.close(said)
    root, is_interrupted = _hear(heard, process)
    os.close(heard)
    if not root:
        return _code_of(process)
    if is_interrupted:
        return _tell_interrupted(root, process, place)
    return _tell(root, process, place, as_json)


def _hear(line: int, process: int) -> tuple[str, bool]:
    """The folder of the run, '' if the process ended before it had one; and was there a Ctrl-C?"""
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
            return os.fsdecode(told), is_interrupted
        told += part


def _tell_interrupted(root: str, process: int, place: Place) -> int:
    """The run had just begun, and stops in good order."""
    code = _code_of(process)
    run_id = os.path.basename(root)
    note(f"run {run_id} was interrupted\n")
    note(f"  go on:  {place.command('resume', run_id)}\n")
    return code


def _code_of(process: int) -> int:
    """How the process ended that could not start a run; it has said why."""
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        raise StateError(
            f"the process of the run was ended by signal {-code} before the run had started",
            "start it again",
        )
    return code


def _tell(root: str, process: int, place: Place, as_json: bool) -> int:
    run_id = os.path.basename(root)
    if as_json:
        log = os.path.join(root, "logs", LOG)
        answer_json({"run_id": run_id, "run_root": root, "pid": process, "log": log})
        return 0
    answer(f"{run_id}\n")
    note(f"  watch:  {place.command('attach', run_id)}\n")
    note(f"  wait:   {place.command('wait', run_id)}\n")
    return 0
